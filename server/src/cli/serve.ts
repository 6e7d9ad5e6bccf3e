/** `nereid serve`, and all of `tritonserver`: flags in, a running server, signals, an exit code. */

import process from "node:process";
import { escapesMessages, logSettings } from "../config/flags/log-settings.ts";
import { parseServerFlags } from "../config/flags/parse-server-flags.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import type { Environment } from "../core/environment.ts";
import { ERROR_CODE_NAMES, ServerError } from "../core/server-error.ts";
import { type OtherRank, otherRank } from "../main/other-rank.ts";
import type { RunningServer } from "../main/start-server.ts";
import { ServerLog } from "../observe/log.ts";
import { curlHints } from "./curl-hints.ts";

const SIGNAL_NUMBERS = { SIGINT: 2, SIGTERM: 15 } as const;
/** Triton's words for a repository that is none. */
const REPOSITORY_FAULT = /^(--model-repository must be specified|failed to stat file|repository path is not a valid)/;
const PARENT_CHECK_MS = 500;
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
  readonly readyText?: (endpoints: Endpoints) => string;
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
  // The server is large: who only asks for help, or names a wrong flag, does not wait for it.
  const { MODELS_NOT_LOADED, startServer } = await import("../main/start-server.ts");
  let server: RunningServer;
  try {
    server = await startServer(options, createLog(options));
  } catch (error) {
    reportStartFailure(error);
    const { message } = ServerError.from(error);
    if (message === MODELS_NOT_LOADED && !isExplained) process.stderr.write(doctorHint(options.repository.paths));
    if (REPOSITORY_FAULT.test(message)) process.stderr.write(repositoryHint(options.repository.paths));
    return;
  }
  if (readyText !== undefined) process.stdout.write(readyText(server.endpoints));
  else if (hints) process.stdout.write(curlHints(server.server, server.endpoints, options.repository));
  await stopOnSignal(server);
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

/** The words of the failure are Triton's, and say neither which model nor why. `doctor` reads folders only. */
function doctorHint(repositories: readonly string[]): string {
  const why = "The log says which models and why";
  if (repositories.some((path) => path.includes("://"))) return `${why}.\n`;
  return `${why}; for files, lines and fixes: nereid doctor ${repositories.join(" ")}\n`;
}

function repositoryHint(paths: readonly string[]): string {
  const got = paths.length === 0 ? "" : `, got ${paths.join(", ")}`;
  return `--model-repository: expected a folder that holds a folder for each model${got}\n`;
}

/** The first signal drains; a second one stops waiting for what is in flight. */
function stopOnSignal(server: RunningServer): Promise<void> {
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
