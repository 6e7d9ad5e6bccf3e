/** `nereid replay`: repeats recorded traffic on a server and reports what it answers otherwise. */
import { writeFileSync } from "node:fs";
import process from "node:process";
import { type CommandSyntax, type FlagTable, UsageError } from "@nereid/server/cli/arguments";
import { runCommand } from "@nereid/server/cli/run-command";
import { fileError } from "@nereid/server/files/tool-error";
import { htmlPage } from "../report/html-page.ts";
import { countOf, replayJson, replayPage, replayText } from "../report/replay-report.ts";
import { parseHeaders, parseTarget } from "../target/target.ts";
import { readRecording } from "../traffic/read-recording.ts";
import { runReplay } from "../traffic/run-replay.ts";
import { createGrpcSender, createHttpSender } from "../traffic/send-recorded.ts";
import { NO_TLS_FILES } from "./no-tls-files.ts";

const FLAGS = {
  url: { type: "string", short: "u", value: "HOST:PORT", summary: "HTTP of the server; default localhost:8000" },
  "grpc-url": { type: "string", value: "HOST:PORT", summary: "its gRPC; without it requests of gRPC are skipped" },
  speed: { type: "string", default: "1", value: "N", summary: "times are divided by it; max: without waiting" },
  concurrency: { type: "integer", short: "c", min: 1, default: 1, summary: "with --speed max: requests under way" },
  rtol: { type: "number", min: 0, default: 1e-5, summary: "relative tolerance of numbers" },
  atol: { type: "number", min: 0, default: 1e-6, summary: "absolute tolerance of numbers" },
  "ignore-field": {
    type: "string",
    many: "repeated",
    value: "NAME",
    summary: "member of answers that may differ, beside id, created, system_fingerprint and model_version",
  },
  "request-timeout-secs": {
    type: "number",
    min: 0.001,
    default: 300,
    summary: "a request without an answer has failed",
  },
  header: {
    type: "string",
    short: "H",
    many: "repeated",
    value: "NAME:VALUE",
    summary: "header field of each request, such as a key that was masked",
  },
  html: { type: "string", value: "FILE", summary: "report as a page" },
  "report-json": { type: "string", value: "FILE", summary: "all results as JSON" },
} as const satisfies FlagTable;

const SYNTAX: CommandSyntax<typeof FLAGS> = {
  command: "replay",
  description:
    "Repeats what nereid record wrote on another server or version, and compares the answers. Ends with 1 when one differs or fails.",
  flags: FLAGS,
  positionals: [{ name: "recording", summary: "file of nereid record" }],
  examples: ["nereid replay traffic.jsonl -u localhost:9000 --speed max --rtol 1e-3"],
};

/** Differ on every run. */
const ALWAYS_IGNORED = ["id", "created", "system_fingerprint", "model_version"];

export async function replayCommand(argv: readonly string[]): Promise<void> {
  await runCommand(SYNTAX, argv, async ({ values, positionals: [path = ""], reporter, signal }) => {
    const speed = speedOf(values.speed);
    const recording = readRecording(path);
    if (recording.numWithoutBody > 0)
      reporter.warn(`${recording.numWithoutBody} requests were recorded without their bodies`);
    const target = parseTarget(values.url ?? "localhost:8000", NO_TLS_FILES);
    const own = parseHeaders(values.header);
    const grpcTarget = values["grpc-url"] === undefined ? undefined : parseTarget(values["grpc-url"], NO_TLS_FILES);
    const senders = {
      http: createHttpSender(target, own),
      grpc: grpcTarget === undefined ? undefined : createGrpcSender(grpcTarget, own),
    };
    const compare = {
      tolerance: { relative: values.rtol, absolute: values.atol },
      ignored: new Set([...ALWAYS_IGNORED, ...values["ignore-field"]]),
    };
    const options = {
      speed,
      concurrency: values.concurrency,
      compare,
      timeoutMs: values["request-timeout-secs"] * 1000,
    };
    try {
      const results = await runReplay(recording, senders, options, reporter, signal);
      const facts = {
        recording: path,
        recorded: recording.head.server,
        server: target.base,
        date: new Date().toISOString(),
      };
      const json = { ...facts, ...replayJson(results) };
      write(values.html, () => htmlPage(replayPage(results, facts)));
      write(values["report-json"], () => `${JSON.stringify(json, undefined, 2)}\n`);
      if (countOf(results, "different") + countOf(results, "failed") > 0) process.exitCode = 1;
      reporter.result(replayText(results), json);
    } finally {
      senders.http.close();
      senders.grpc?.close();
    }
  });
}

function speedOf(text: string): number | undefined {
  if (text === "max") return undefined;
  const speed = Number(text);
  if (!(speed > 0)) throw new UsageError(`--speed is a number above 0 or max, got '${text}'`);
  return speed;
}

function write(path: string | undefined, text: () => string): void {
  if (path === undefined) return;
  try {
    writeFileSync(path, text());
  } catch (error) {
    throw fileError("write", path, error);
  }
}
