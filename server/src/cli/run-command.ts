/**
 * The common part of all offline commands: help, wrong flags, progress, signals, exit codes. 0: done; 1: it could not
 * be done; 2: the command line is wrong; 130 and 143: interrupted. It does not know the work of a command.
 */
import process from "node:process";
import { progressMode, Reporter } from "../files/progress.ts";
import { locationText, ToolError } from "../files/tool-error.ts";
import { MissingPackageError } from "../packages/optional-package.ts";
import { type Arguments, type CommandSyntax, type FlagTable, parseArguments, UsageError } from "./arguments.ts";
import { helpText } from "./arguments-help.ts";
import { noEffectText } from "./no-effect.ts";

/** Flags that every offline command has. */
export const OUTPUT_FLAGS: {
  readonly quiet: { readonly type: "switch"; readonly short: "q"; readonly summary: string };
  readonly json: { readonly type: "switch"; readonly summary: string };
} = {
  quiet: { type: "switch", short: "q", summary: "show results, warnings and errors only" },
  json: { type: "switch", summary: "write JSON lines for machines on stdout: progress, warning, error, done" },
};

export interface CommandContext<T extends FlagTable> extends Arguments<T> {
  readonly reporter: Reporter;
  /** Aborted by the first SIGINT or SIGTERM. The second one ends the process. */
  readonly signal: AbortSignal;
}

const SIGNAL_EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
const FAILED = 1;
const WRONG_USAGE = 2;

/** Runs a command with `OUTPUT_FLAGS` added to its own. `action` may throw `UsageError` for flags that do not go together, and may set `process.exitCode` for endings of its own. */
export async function runCommand<const T extends FlagTable>(
  syntax: CommandSyntax<T>,
  argv: readonly string[],
  action: (context: CommandContext<T & typeof OUTPUT_FLAGS>) => Promise<void>,
): Promise<void> {
  const full = { ...syntax, flags: { ...syntax.flags, ...OUTPUT_FLAGS } };
  const parsed = parseOrReport(full, argv);
  if (parsed === undefined) return;
  const { quiet, json } = parsed.values as { quiet: boolean; json: boolean };
  const reporter = new Reporter({ mode: progressMode({ quiet, json }), command: syntax.command });
  const interruption = new AbortController();
  const ignoreSignals = abortOnSignal(interruption);
  try {
    refuseGiven(parsed.given, syntax.refused ?? new Map());
    const ignored = noEffectText(full.flags, parsed.given);
    if (ignored !== undefined) reporter.warn(ignored);
    await action({ ...parsed, reporter, signal: interruption.signal });
  } catch (error) {
    if (error instanceof UsageError) reportUsage(error, syntax.command);
    else report(error, reporter, interruption.signal);
  } finally {
    ignoreSignals();
  }
}

/** @throws ToolError for flags whose function is elsewhere or missing here */
function refuseGiven(given: ReadonlySet<string>, refusals: ReadonlyMap<string, string>): void {
  for (const [name, fix] of refusals) {
    if (given.has(name)) throw new ToolError(`--${name} is not supported here`, { fix });
  }
}

function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf("--");
  return (end === -1 ? argv : argv.slice(0, end)).some((argument) => argument === "--help" || argument === "-h");
}

/** Undefined: help was asked for, or the command line is wrong, and the user has been told. */
export function parseOrReport<T extends FlagTable>(
  syntax: CommandSyntax<T>,
  argv: readonly string[],
): Arguments<T> | undefined {
  if (asksForHelp(argv)) {
    process.stdout.write(helpText(syntax));
    return undefined;
  }
  try {
    return parseArguments(syntax, argv);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    reportUsage(error, syntax.command);
    return undefined;
  }
}

export function reportUsage({ message }: UsageError, command: string): void {
  process.stderr.write(`nereid ${command}: ${message}\nSee nereid ${command} --help\n`);
  process.exitCode = WRONG_USAGE;
}

function abortOnSignal(interruption: AbortController): () => void {
  const onSignal = (signal: "SIGINT" | "SIGTERM"): void => {
    const code = SIGNAL_EXIT_CODES[signal];
    if (interruption.signal.aborted) process.exit(code);
    process.exitCode = code;
    interruption.abort(new ToolError("Interrupted", { fix: "Run the command again: it resumes, or starts over" }));
  };
  process.on("SIGINT", onSignal);
  process.on("SIGTERM", onSignal);
  return () => {
    process.off("SIGINT", onSignal);
    process.off("SIGTERM", onSignal);
  };
}

/** A known reason in its own words, with the place before and the fix behind it; a fault of ours with its stack. */
function report(error: unknown, reporter: Reporter, signal: AbortSignal): void {
  const reason: unknown = signal.aborted ? signal.reason : error;
  if (!signal.aborted) process.exitCode = FAILED;
  if (reason instanceof MissingPackageError) {
    reporter.error(reason.message);
    return;
  }
  if (!(reason instanceof ToolError)) {
    reporter.error(reason instanceof Error ? (reason.stack ?? reason.message) : String(reason));
    return;
  }
  const { message, fix, at } = reason;
  if (reporter.mode === "json") {
    reporter.error(message, { fix: fix ?? null, file: at?.file ?? null, line: at?.line ?? null });
    return;
  }
  reporter.error(`${at === undefined ? "" : `${locationText(at)}: `}${message}${fix === undefined ? "" : `\n${fix}.`}`);
}
