/** The server that is tuned: one of our own on free ports of loopback, or one that runs. Models change by configurations that come with their loads, never by files. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseJsonMessage } from "@nereid/server/config/model/json-form";
import type { WrittenMessage } from "@nereid/server/config/model/written-message";
import { parseTextMessage } from "@nereid/server/config/pbtxt/text-format";
import { ToolError } from "@nereid/server/files/tool-error";

const HOST = "127.0.0.1";
const LOAD_TIMEOUT_MS = 1_800_000;
const POLL_MS = 50;
/** Characters of the server's log that are kept for errors. */
const MAX_LOG_CHARS = 20_000;
const STOP_TIMEOUT_MS = 30_000;

export interface TunedServer extends AsyncDisposable {
  /** host:port of HTTP and of gRPC. */
  readonly httpUrl: string;
  readonly grpcUrl: string;
  /** As its file says, or else as the server completed it. */
  writtenConfig(model: string): Promise<WrittenMessage>;
  /** Undefined: as the repository has it. @throws LoadRefusal */
  load(model: string, config: WrittenMessage | undefined): Promise<void>;
}

/** The server does not load a model as it was told to; the message is the server's reason. */
export class LoadRefusal extends ToolError {}

export interface RunningServer {
  readonly base: string;
  readonly httpUrl: string;
  readonly grpcUrl: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** A server that runs, with explicit model control. Its models are as it has loaded them. */
export function runningServer({ base, httpUrl, grpcUrl, headers }: RunningServer): TunedServer {
  const api = new RepositoryApi(base, headers);
  return {
    httpUrl,
    grpcUrl,
    writtenConfig: (model) => api.config(model),
    load: (model, config) => api.load(model, config),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** Starts a server over the repository, which it only reads. */
export async function startServer(
  repository: string,
  flags: readonly string[],
  signal: AbortSignal,
): Promise<TunedServer> {
  const [http, grpc] = [await freePort(), await freePort()];
  const program = fileURLToPath(import.meta.resolve("@nereid/server/bin/tritonserver.cjs"));
  const own = [
    `--model-repository=${repository}`,
    "--model-control-mode=explicit",
    `--http-port=${http}`,
    `--grpc-port=${grpc}`,
    `--http-address=${HOST}`,
    `--grpc-address=${HOST}`,
    "--allow-metrics=false",
  ];
  const child = spawn(process.execPath, [program, ...flags, ...own], { stdio: ["ignore", "pipe", "pipe"] });
  const log = new TailLog(child);
  const api = new RepositoryApi(`http://${HOST}:${http}`, {});
  const stop = (): Promise<void> => stopChild(child);
  try {
    await untilLive(api, child, log, signal);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    httpUrl: `${HOST}:${http}`,
    grpcUrl: `${HOST}:${grpc}`,
    async writtenConfig(model) {
      const path = join(repository, model, "config.pbtxt");
      return existsSync(path) ? parseTextMessage(readFileSync(path, "utf8"), path, "ModelConfig") : api.config(model);
    },
    load: (model, config) => api.load(model, config),
    [Symbol.asyncDispose]: stop,
  };
}

class RepositoryApi {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(base: string, headers: Readonly<Record<string, string>>) {
    this.#base = base;
    this.#headers = headers;
  }

  async isLive(): Promise<boolean> {
    return await this.#ask("/v2/health/live").then(
      ({ ok }) => ok,
      () => false,
    );
  }

  async config(model: string): Promise<WrittenMessage> {
    const response = await this.#ask(`/v2/models/${encodeURIComponent(model)}/config`);
    const text = await response.text();
    if (!response.ok) throw new ToolError(`${this.#base}: no configuration of model '${model}': ${text.slice(0, 500)}`);
    return parseJsonMessage(text, "ModelConfig");
  }

  async load(model: string, config: WrittenMessage | undefined): Promise<void> {
    const parameters = config === undefined ? {} : { config: JSON.stringify(config) };
    const path = `/v2/repository/models/${encodeURIComponent(model)}/load`;
    const response = await this.#ask(path, JSON.stringify({ parameters }));
    if (response.ok) return;
    const text = await response.text();
    throw new LoadRefusal(reasonOf(text), {
      fix: "A running server needs --model-control-mode=explicit to load models by request",
    });
  }

  async #ask(path: string, body?: string): Promise<Response> {
    const init = body === undefined ? {} : { method: "POST", body };
    const signal = AbortSignal.timeout(LOAD_TIMEOUT_MS);
    return await fetch(`${this.#base}${path}`, { ...init, headers: this.#headers, signal }).catch((cause: unknown) => {
      throw new ToolError(`${this.#base} does not answer`, { fix: "Check that the server runs, and --url", cause });
    });
  }
}

function reasonOf(text: string): string {
  try {
    const { error } = JSON.parse(text) as { readonly error?: unknown };
    return typeof error === "string" ? error : text;
  } catch {
    return text.slice(0, 500);
  }
}

/** The end of what a process writes. */
class TailLog {
  text = "";

  constructor({ stdout, stderr }: ChildProcess) {
    for (const stream of [stdout, stderr]) {
      stream?.setEncoding("utf8").on("data", (part: string) => {
        this.text = (this.text + part).slice(-MAX_LOG_CHARS);
      });
    }
  }
}

async function untilLive(api: RepositoryApi, child: ChildProcess, log: TailLog, signal: AbortSignal): Promise<void> {
  while (!(await api.isLive())) {
    signal.throwIfAborted();
    if (child.exitCode !== null) throw new ToolError(`the server ended with ${child.exitCode}:\n${log.text.trimEnd()}`);
    await sleep(POLL_MS);
  }
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(timer);
}

/** The next user of the port is the server: it says so if another program was faster. */
async function freePort(): Promise<number> {
  const probe = createServer().listen(0, HOST);
  await once(probe, "listening");
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, "close");
  return port;
}
