/**
 * Progress and result output of an offline command: a redrawn terminal line, log lines, JSON lines, or nothing. Knows
 * nothing of the work.
 */
import process from "node:process";
import { type ProgressSnapshot, progressLine, RateMeter } from "./progress-text.ts";

/** `terminal` redraws one line, `lines` writes one at intervals, `quiet` shows results and warnings only. */
export type ProgressMode = "terminal" | "lines" | "quiet" | "json";

export interface TextOutput {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

export interface ReporterOptions {
  readonly mode: ProgressMode;
  /** The command's name; included in every JSON line. */
  readonly command: string;
  /** Stream for progress. */
  readonly stderr?: TextOutput;
  /** Stream for results, and for every line of `json`. */
  readonly stdout?: TextOutput;
  readonly nowMs?: () => number;
}

/** One task whose amount can be counted. */
export interface ProgressTask {
  /** Adds completed work; `item` names the work in progress. */
  add(amount: number, item?: string): void;
  /** Work from an earlier run: counts as done, not towards the rate. */
  skip(amount: number): void;
  setTotal(total: number): void;
  /** Ends the line. Call it also when the work failed. */
  end(): void;
}

const INTERVAL_MS: Readonly<Record<ProgressMode, number>> = {
  terminal: 100,
  lines: 5000,
  quiet: Number.POSITIVE_INFINITY,
  json: 500,
};
/** Width of a terminal that reports none, or 0 without a window. */
const DEFAULT_COLUMNS = 100;
const CLEAR_LINE = "\r\x1b[2K";

export function progressMode(
  options: { quiet: boolean; json: boolean },
  stderr: TextOutput = process.stderr,
): ProgressMode {
  if (options.json) return "json";
  if (options.quiet) return "quiet";
  return stderr.isTTY === true ? "terminal" : "lines";
}

export class Reporter {
  readonly #mode: ProgressMode;
  readonly #command: string;
  readonly #stderr: TextOutput;
  readonly #stdout: TextOutput;
  readonly #nowMs: () => number;
  #isLineOpen = false;

  constructor(options: ReporterOptions) {
    this.#mode = options.mode;
    this.#command = options.command;
    this.#stderr = options.stderr ?? process.stderr;
    this.#stdout = options.stdout ?? process.stdout;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  get mode(): ProgressMode {
    return this.#mode;
  }

  /** A step that is worth a line of its own. */
  info(message: string): void {
    if (this.#mode === "json") this.#json("info", { message });
    else if (this.#mode !== "quiet") this.#line(message);
  }

  warn(message: string): void {
    if (this.#mode === "json") this.#json("warning", { message });
    else this.#line(`Warning: ${message}`);
  }

  /** The end of a successful command: text on stdout, or JSON fields. */
  result(text: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#closeLine();
    if (this.#mode === "json") this.#json("done", fields);
    else if (text !== "") this.#stdout.write(`${text}\n`);
  }

  /** The end of a failed command. */
  error(message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    if (this.#mode === "json") this.#json("error", { message, ...fields });
    else this.#line(`nereid ${this.#command}: ${message}`);
  }

  startTask(options: { readonly task: string; readonly unit: string; readonly total?: number }): ProgressTask {
    return new RunningTask(options, this.#nowMs, INTERVAL_MS[this.#mode], (snapshot, isLast) =>
      this.#show(snapshot, isLast),
    );
  }

  #show(snapshot: ProgressSnapshot, isLast: boolean): void {
    if (this.#mode === "quiet") return;
    if (this.#mode === "json") {
      const { task, unit, done, total = null, rate = null, etaSeconds = null, item = null } = snapshot;
      this.#json("progress", { task, unit, done, total, rate, eta_seconds: etaSeconds, item });
      return;
    }
    const line = progressLine(snapshot, (this.#stderr.columns || DEFAULT_COLUMNS) - 1);
    if (this.#mode === "lines") {
      this.#stderr.write(`${line}\n`);
      return;
    }
    this.#stderr.write(`${CLEAR_LINE}${line}${isLast ? "\n" : ""}`);
    this.#isLineOpen = !isLast;
  }

  #line(text: string): void {
    this.#stderr.write(`${this.#isLineOpen ? CLEAR_LINE : ""}${text}\n`);
    this.#isLineOpen = false;
  }

  #closeLine(): void {
    if (this.#isLineOpen) this.#stderr.write("\n");
    this.#isLineOpen = false;
  }

  #json(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.#stdout.write(`${JSON.stringify({ event, command: this.#command, ...fields })}\n`);
  }
}

class RunningTask implements ProgressTask {
  readonly #task: string;
  readonly #unit: string;
  readonly #nowMs: () => number;
  readonly #intervalMs: number;
  readonly #show: (snapshot: ProgressSnapshot, isLast: boolean) => void;
  readonly #meter: RateMeter;
  #total: number | undefined;
  #done = 0;
  #skipped = 0;
  #item: string | undefined;
  #shownAtMs: number;
  #hasEnded = false;

  constructor(
    options: { readonly task: string; readonly unit: string; readonly total?: number },
    nowMs: () => number,
    intervalMs: number,
    show: (snapshot: ProgressSnapshot, isLast: boolean) => void,
  ) {
    this.#task = options.task;
    this.#unit = options.unit;
    this.#total = options.total;
    this.#nowMs = nowMs;
    this.#intervalMs = intervalMs;
    this.#show = show;
    this.#shownAtMs = nowMs();
    this.#meter = new RateMeter(this.#shownAtMs, 0);
  }

  add(amount: number, item?: string): void {
    this.#done += amount;
    if (item !== undefined) this.#item = item;
    const nowMs = this.#nowMs();
    if (nowMs - this.#shownAtMs < this.#intervalMs) return;
    this.#meter.sample(nowMs, this.#done - this.#skipped);
    this.#shownAtMs = nowMs;
    this.#show(this.#snapshot(), false);
  }

  skip(amount: number): void {
    this.#done += amount;
    this.#skipped += amount;
  }

  setTotal(total: number): void {
    this.#total = total;
  }

  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#meter.sample(this.#nowMs(), this.#done - this.#skipped);
    this.#show({ ...this.#snapshot(), etaSeconds: undefined, item: undefined }, true);
  }

  #snapshot(): ProgressSnapshot {
    const rate = this.#meter.rate();
    const left = this.#total === undefined ? undefined : Math.max(0, this.#total - this.#done);
    const etaSeconds = left === undefined || rate === undefined || rate <= 0 ? undefined : left / rate;
    return {
      task: this.#task,
      unit: this.#unit,
      done: this.#done,
      total: this.#total,
      rate,
      etaSeconds,
      item: this.#item,
    };
  }
}
