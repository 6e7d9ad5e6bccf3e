/** `nereid serve`, and all of `tritonserver`: flags in, a running server, signals, an exit code. */

import cluster from "node:cluster";
import process from "node:process";
import { escapesMessages, logSettings } from "../config/flags/log-settings.ts";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import type { Environment } from "../core/environment.ts";
import { ERROR_CODE_NAMES, ServerError } from "../core/server-error.ts";
import { type OtherRank, otherRank } from "../main/other-rank.ts";
import type { RunningServer } from "../main/start-server.ts";
import type { Supervisor } from "../main/workers/supervisor.ts";
import { ServerLog } from "../observe/log.ts";
import { curlHints } from "./curl-hints.ts";

const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
/** Triton's words for a repository that is none. */
const REPOSITORY_FAULT = /^(--model-repository must be specified|failed to stat file|repository path is not a valid)/;
const PARENT_CHECK_MS = 500;
/** Node.js counts the processes of a supervisor; the others and those that replace it print nothing for people. */
const FIRST_WORKER = 1;
/** By this name scripts find the process and end it (`pkill tritonserver`). */
const PROCESS_TITLE = "tritonserver";
/** First release that is still maintained. */
const OLDEST_SUPPORTED_NODE = 22;

type Endpoints = RunningServer["endpoints"];

interface ServeStyle {
  /** Print a request for each model. */
  readonly hints: boolean;
  /** The caller says why models did not load. */
  readonly isExplained?: boolean;
  /** Text for standard output once the server is ready, in place of the hints. */
  readonly readyText?: ((endpoints: Endpoints, options: ServerOptions) => string) | undefined;
}

export async function serve(
  argv: readonly string[],
  { hints, isExplained = false, readyText }: ServeStyle,
): Promise<void> {
  process.title = PROCESS_TITLE;
  const parsed = parseServerFlags(argv, process.env);
  if (parsed.kind === "usage") {
    process.stderr.write(parsed.text);
    process.exitCode = parsed.exitCode;
    return;
  }
  const { options } = parsed;
  const rank = otherRank(process.env);
  if (rank !== undefined) {
    await followAsRank(rank);
    return;
  }
  for (const warning of options.warnings) process.stderr.write(`${warning}\n`);
  if (options.workerCount > 0 && cluster.isPrimary) {
    await supervise(options);
    return;
  }
  // The server is large: who only asks for help, or names a wrong flag, does not wait for it.
  const { MODELS_NOT_LOADED, startServer } = await import("../main/start-server.ts");
  let server: RunningServer;
  try {
    server = await startServer(options, createLog(options), { isWorker: cluster.isWorker });
  } catch (error) {
    reportStartFailure(error);
    const { message } = ServerError.from(error);
    const isOfModels = message === MODELS_NOT_LOADED && !isExplained;
    process.stderr.write(hintAfter(message, isOfModels, options.repository.paths));
    if (cluster.isWorker) process.exit(1); // the channel to the supervisor would keep the process
    return;
  }
  if (!cluster.isWorker || cluster.worker?.id === FIRST_WORKER) greet(server, options, { hints, readyText });
  await (cluster.isWorker ? serveUntilToldTo(server) : stopOnSignal(server));
}

/** The text for people, once the server is ready. */
function greet(server: RunningServer, options: ServerOptions, { hints, readyText }: ServeStyle): void {
  if (readyText !== undefined) process.stdout.write(readyText(server.endpoints, options));
  else if (hints) process.stdout.write(curlHints(server.server, server.endpoints, options.repository));
}

/** Ranks behind the first serve nobody. */
async function followAsRank(rank: OtherRank): Promise<void> {
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(0));
  // Modules for ranks are loaded for ranks only.
  const { runRank } = await import("../main/rank-host.ts");
  process.exit(await runRank(rank));
}

function createLog({ log }: ServerOptions): ServerLog {
  const serverLog = new ServerLog(logSettings(log), { escape: escapesMessages(process.env) });
  const major = Number(process.versions.node.split(".")[0]);
  if (major < OLDEST_SUPPORTED_NODE) {
    serverLog.warn("server", `Node.js ${process.versions.node} is past its end of life; Node.js 24 is recommended`);
  }
  return serverLog;
}

/** A start that failed ends the process with Triton's words; what is no `ServerError` is a fault of ours and shows its stack. */
function reportStartFailure(error: unknown): void {
  const { code, message } = ServerError.from(error);
  const isListening = message.startsWith("failed to start");
  const text = isListening ? message : `error: creating server: ${ERROR_CODE_NAMES[code]} - ${message}`;
  process.stderr.write(`${text}\n`);
  if (!(error instanceof ServerError)) process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
  process.exitCode = 1;
}

function hintAfter(message: string, isOfModels: boolean, paths: readonly string[]): string {
  if (isOfModels) return doctorHint(paths);
  return REPOSITORY_FAULT.test(message) ? repositoryHint(paths) : "";
}

/** The words of the failure are Triton's, and say neither which model nor why. `doctor` reads folders only. */
function doctorHint(repositories: readonly string[]): string {
  const why = "The log says which models and why";
  if (repositories.some((path) => path.includes("://"))) return `${why}.\n`;
  return `${why}; for files, lines and fixes: nereid doctor ${repositories.join(" ")}\n`;
}

function repositoryHint(paths: readonly string[]): string {
  const expected = "--model-repository: expected a folder that holds a folder for each model";
  if (paths.length > 0) return `${expected}, got ${paths.join(", ")}\n`;
  return `${expected}; one model by its name or path: nereid serve NAME\n`;
}

/** Behind a supervisor: it gets the signals. */
async function serveUntilToldTo(server: RunningServer): Promise<void> {
  const { serveAsWorker } = await import("../main/workers/worker-process.ts");
  const inTime = await serveAsWorker(server);
  process.exit(inTime ? 0 : 1); // the channel to the supervisor would keep the process
}

/** `--workers`: this process serves nobody, and its signals are for all of its workers. */
async function supervise(options: ServerOptions): Promise<void> {
  const { startSupervisor } = await import("../main/workers/supervisor.ts");
  let supervisor: Supervisor | undefined;
  process.on("SIGHUP", () => supervisor?.roll()); // before all serve there is nothing to replace
  try {
    supervisor = await startSupervisor(options, createLog(options));
  } catch (error) {
    if (error instanceof ServerError) reportStartFailure(error);
    else process.stderr.write(`error: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
    return;
  }
  const { hurry, stop } = supervisor;
  await stopOnSignal({
    hurry,
    async stop() {
      process.exitCode = await stop();
      return true;
    },
  });
  process.exit(process.exitCode);
}

/** The first signal drains; a second one stops waiting for what is in flight. */
function stopOnSignal(server: Pick<RunningServer, "stop" | "hurry">): Promise<void> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: "SIGINT" | "SIGTERM"): void => {
      if (isStopping) {
        server.hurry();
        return;
      }
      isStopping = true;
      process.stdout.write(`Signal (${SIGNAL_NUMBERS[signal]}) received.\n`);
      void server.stop().then((inTime) => {
        if (!inTime) process.exit(1); // whatever still runs has had its time
        resolve();
      });
    };
    process.on("SIGINT", onSignal);
    process.on("SIGTERM", onSignal);
    const { npm_command }: Environment = process.env;
    if (npm_command === "exec") onLossOfParent(() => onSignal("SIGTERM"));
  });
}

/** npx hands a signal to its shell, which dies of it and leaves the server behind: the loss of the shell is the signal. */
function onLossOfParent(callback: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    callback();
  }, PARENT_CHECK_MS);
  timer.unref();
}
