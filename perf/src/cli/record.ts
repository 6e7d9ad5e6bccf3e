/** `nereid record`: a proxy in front of any V2 server that writes sampled inference traffic to a file. */
import { once } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import type { Server } from "node:net";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { type CommandSyntax, type FlagTable, type FlagValues, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import type { Reporter } from "@nereid/server/files/progress";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import { parseTarget } from "../target/target.ts";
import { createGrpcProxy } from "../traffic/grpc-proxy.ts";
import { createHttpProxy } from "../traffic/http-proxy.ts";
import { Recorder, type RecorderCounts } from "../traffic/recorder.ts";
import type { RedactionNames } from "../traffic/recording.ts";
import { parseBytes } from "./byte-size.ts";
import { NO_TLS_FILES } from "./no-tls-files.ts";

const FLAGS = {
  url: { type: "string", short: "u", value: "HOST:PORT", summary: "HTTP of the server; default localhost:8000" },
  "grpc-url": { type: "string", value: "HOST:PORT", summary: "gRPC of the server; without it gRPC is not recorded" },
  listen: {
    type: "string",
    value: "HOST:PORT",
    default: "127.0.0.1:8100",
    summary: "where clients find the proxy over HTTP",
  },
  "grpc-listen": { type: "string", value: "HOST:PORT", default: "127.0.0.1:8101", summary: "and over gRPC" },
  output: {
    type: "string",
    short: "o",
    value: "FILE",
    required: true,
    summary: "traffic.jsonl; bodies that are no text go to traffic.bin",
  },
  sample: { type: "number", min: 0, max: 1, default: 1, value: "SHARE", summary: "share of the requests, 0 to 1" },
  seed: { type: "integer", default: 0, summary: "of the choice" },
  "max-requests": { type: "integer", min: 1, default: 10_000, summary: "nothing more is recorded after so many" },
  "max-size": { type: "string", value: "BYTES", default: "1g", summary: "or when the files are so large" },
  "max-body": {
    type: "string",
    value: "BYTES",
    default: "16m",
    summary: "requests and answers above this are not recorded",
  },
  "max-memory": {
    type: "string",
    value: "BYTES",
    default: "256m",
    summary: "bodies that are not written yet; more are dropped",
  },
  "duration-secs": { type: "number", min: 0, value: "S", summary: "ends after this time; default: by Ctrl+C" },
  "redact-header": {
    type: "string",
    many: "repeated",
    value: "NAME",
    summary: "header field to mask; credentials always are",
  },
  "redact-field": { type: "string", many: "repeated", value: "NAME", summary: "member of JSON, or parameter, to mask" },
  "redact-tensor": { type: "string", many: "repeated", value: "NAME", summary: "tensor whose values are masked" },
  "redact-pattern": { type: "string", many: "repeated", value: "REGEX", summary: "what matches in any text is masked" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "record",
  description:
    "Records inference traffic with its bodies for nereid replay. It is a proxy: clients go to --listen in place of the server. Nothing is recorded unless it runs.",
  flags: FLAGS,
  examples: [
    "nereid record -u localhost:8000 --grpc-url localhost:8001 -o traffic.jsonl --sample 0.1 --redact-field user",
  ],
};

type Flags = FlagValues<typeof FLAGS>;

/** Requests under way may end within this. */
const DRAIN_MS = 10_000;
const FOR_EVER_MS = 2 ** 31 - 1;

export async function recordCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, reporter, signal }) => {
    const target = parseTarget(values.url ?? "localhost:8000", NO_TLS_FILES);
    const grpcTarget = values["grpc-url"] === undefined ? undefined : parseTarget(values["grpc-url"], NO_TLS_FILES);
    expectNewFile(values.output);
    const recorder = new Recorder({
      path: values.output,
      server: target.base,
      sample: values.sample,
      seed: values.seed,
      maxRequests: values["max-requests"],
      maxFileBytes: parseBytes(values["max-size"], "--max-size"),
      maxBodyBytes: parseBytes(values["max-body"], "--max-body"),
      maxQueueBytes: parseBytes(values["max-memory"], "--max-memory"),
      redaction: redactionOf(values),
    });
    const servers: Server[] = [];
    try {
      servers.push(await listen(createHttpProxy(target, recorder), values.listen, "--listen"));
      reporter.info(`HTTP: ${addressOf(servers[0])} to ${target.base}`);
      if (grpcTarget !== undefined) {
        servers.push(await listen(createGrpcProxy(grpcTarget, recorder), values["grpc-listen"], "--grpc-listen"));
        reporter.info(`gRPC: ${addressOf(servers[1])} to ${grpcTarget.base}`);
      }
      await untilEnd(values["duration-secs"], recorder, reporter, signal);
    } finally {
      await Promise.all(servers.map(closeServer));
      await recorder.close();
    }
    if (recorder.failure !== undefined) throw fileError("write", values.output, recorder.failure);
    if (signal.aborted) process.exitCode = 0; // Ctrl+C is how a recording ends
    reporter.result(countsText(recorder.counts, values.output), { ...recorder.counts });
  });
}

function redactionOf(flags: Flags): RedactionNames {
  for (const pattern of flags["redact-pattern"]) {
    try {
      new RegExp(pattern, "gu");
    } catch (error) {
      throw new UsageError(`--redact-pattern: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return {
    headers: flags["redact-header"],
    fields: flags["redact-field"],
    tensors: flags["redact-tensor"],
    patterns: flags["redact-pattern"],
  };
}

/** A recording is not replaced: it may be the only one. */
function expectNewFile(path: string): void {
  if (existsSync(path)) throw new ToolError(`${path} is there already`, { fix: "Name another file with --output" });
  try {
    closeSync(openSync(path, "wx", 0o600));
  } catch (error) {
    throw fileError("write", path, error);
  }
}

async function listen(server: Server, address: string, flag: string): Promise<Server> {
  const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(address) ?? [];
  if (host === "") throw new UsageError(`${flag} is HOST:PORT, got '${address}'`);
  server.listen(Number(port), host.replace(/^\[|\]$/g, ""));
  try {
    await once(server, "listening");
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ToolError(`${flag} ${address}: ${reason}`, { fix: `Name a free port with ${flag}` });
  }
  return server;
}

function addressOf(server: Server | undefined): string {
  const address = server?.address();
  return typeof address === "object" && address !== null ? `${address.address}:${address.port}` : "";
}

/** A full recording goes on passing requests: their clients depend on it. */
async function untilEnd(
  seconds: number | undefined,
  recorder: Recorder,
  reporter: Reporter,
  signal: AbortSignal,
): Promise<void> {
  void recorder.isFull.then(() => {
    const why =
      recorder.failure === undefined ? "a limit is reached" : `it cannot be written: ${recorder.failure.message}`;
    reporter.warn(`nothing more is recorded, since ${why}; requests are passed on until the command is ended`);
  });
  await sleep(seconds === undefined ? FOR_EVER_MS : seconds * 1000, undefined, { signal }).catch(() => undefined);
}

async function closeServer(
  server: Server & { closeIdleConnections?: () => void; closeAllConnections?: () => void },
): Promise<void> {
  const closed = once(server, "close");
  server.close();
  server.closeIdleConnections?.();
  const timer = setTimeout(() => server.closeAllConnections?.(), DRAIN_MS);
  await Promise.race([closed, sleep(DRAIN_MS + 1000, undefined, { ref: false })]);
  clearTimeout(timer);
}

function countsText({ seen, sampled, recorded, dropped }: RecorderCounts, path: string): string {
  const lost = Object.entries(dropped).filter(([, count]) => count > 0);
  const losses =
    lost.length === 0 ? "" : `; dropped: ${lost.map(([reason, count]) => `${count} ${reason}`).join(", ")}`;
  return `${path}: ${recorded} of ${seen} requests recorded, ${sampled} sampled${losses}`;
}
