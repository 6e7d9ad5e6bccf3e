/**
 * Log lines in Triton's two formats and as JSON (Triton documentation, "Logging"). INFO and VERBOSE go to stdout,
 * WARNING and ERROR to stderr, all to a file if one is set.
 */
import { appendFileSync, closeSync, openSync } from "node:fs";
import process from "node:process";
import type { LogSettings } from "../core/model-server.ts";

export interface Logger {
  /** `location` is a short stable tag, printed where Triton prints file:line, e.g. "model_lifecycle". */
  info(location: string, message: string): void;
  warn(location: string, message: string): void;
  error(location: string, message: string): void;
  /** A message that costs something to write is a function, called only when the level is on. */
  verbose(level: number, location: string, message: string | (() => string)): void;
  /** A table or other multi-line text: printed unescaped after a line break. */
  table(location: string, text: string): void;
}

/** Gets every record that is written, beside the sink. */
export interface LogKeeper {
  add(level: LogLevelName, location: string, message: string): void;
}

export type LogLevelName = "info" | "warning" | "error" | "verbose";

/** Destination of lines; tests pass their own. */
export interface LogSink {
  out(line: string): void;
  err(line: string): void;
}

export const DEFAULT_LOG_SETTINGS: LogSettings = Object.freeze({
  log_file: "",
  log_info: true,
  log_warning: true,
  log_error: true,
  log_verbose_level: 0,
  log_format: "default",
});

const LEVEL_NAMES = { I: "info", W: "warning", E: "error", V: "verbose" } as const;

/** Programs that read Triton's log expect the name of a file of C++ and a line; models in Python name their own. */
const POSITION = ".cc:1";
const HAS_LINE = /:\d+$/;

type Level = keyof typeof LEVEL_NAMES;

const PROCESS_SINK: LogSink = {
  out: (line) => void process.stdout.write(line),
  err: (line) => void process.stderr.write(line),
};

/**
 * The log of a server. All settings except the file can change at run time; messages are escaped, one record per line.
 */
export class ServerLog implements Logger, Disposable {
  #settings: LogSettings;
  readonly #sink: LogSink;
  readonly #escape: boolean;
  readonly #file: number | undefined;
  #keeper: LogKeeper | undefined;

  /** @throws Error when the log file cannot be opened */
  constructor(settings: LogSettings, options: { sink?: LogSink; escape?: boolean } = {}) {
    this.#settings = settings;
    this.#escape = options.escape ?? true;
    this.#file = settings.log_file === "" ? undefined : openSync(settings.log_file, "a");
    this.#sink = this.#file === undefined ? (options.sink ?? PROCESS_SINK) : fileSink(this.#file);
  }

  get settings(): LogSettings {
    return this.#settings;
  }

  /** From now on the keeper gets the records too; there is one. */
  keepIn(keeper: LogKeeper): void {
    this.#keeper = keeper;
  }

  update(changes: Partial<LogSettings>): LogSettings {
    this.#settings = Object.freeze({ ...this.#settings, ...changes, log_file: this.#settings.log_file });
    return this.#settings;
  }

  info(location: string, message: string): void {
    if (this.#settings.log_info) this.#sink.out(this.#record("I", location, message));
  }

  warn(location: string, message: string): void {
    if (this.#settings.log_warning) this.#sink.err(this.#record("W", location, message));
  }

  error(location: string, message: string): void {
    if (this.#settings.log_error) this.#sink.err(this.#record("E", location, message));
  }

  verbose(level: number, location: string, message: string | (() => string)): void {
    if (this.#settings.log_verbose_level < level) return;
    this.#sink.out(this.#record("V", location, typeof message === "string" ? message : message()));
  }

  table(location: string, text: string): void {
    if (!this.#settings.log_info) return;
    this.#keeper?.add("info", location, text);
    this.#sink.out(this.#isJson ? jsonLine("I", location, text) : this.#line("I", location, `\n${text}`));
  }

  [Symbol.dispose](): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }

  get #isJson(): boolean {
    return this.#settings.log_format === "json";
  }

  #record(level: Level, location: string, message: string): string {
    this.#keeper?.add(LEVEL_NAMES[level], location, message);
    if (this.#isJson) return jsonLine(level, location, message);
    // Triton has no letter of its own for verbose lines.
    return this.#line(level === "V" ? "I" : level, location, this.#escape ? escapeMessage(message) : message);
  }

  #line(level: string, location: string, text: string): string {
    const iso = new Date().toISOString(); // 2024-05-20T20:03:26.829Z
    const micros = Math.floor((performance.timeOrigin + performance.now()) * 1000) % 1_000_000;
    const stamp =
      this.#settings.log_format === "ISO8601"
        ? `${iso.slice(0, 19)}Z ${level}`
        : `${level}${iso.slice(5, 7)}${iso.slice(8, 10)} ${iso.slice(11, 19)}.${String(micros).padStart(6, "0")}`;
    return `${stamp} ${process.pid} ${location}${HAS_LINE.test(location) ? "" : POSITION}] ${text}\n`;
  }
}

/** One object per line; always escaped, since the reader is a program. */
function jsonLine(level: Level, location: string, message: string): string {
  const time = new Date().toISOString();
  return `{"time":"${time}","level":"${LEVEL_NAMES[level]}","pid":${process.pid},"location":${escapeMessage(location)},"message":${escapeMessage(message)}}\n`;
}

/**
 * Quotes a message so that client text cannot break a line or control a terminal: JSON, and the two Unicode line ends.
 */
export function escapeMessage(message: string): string {
  return JSON.stringify(message)
    .replaceAll("\u2028", "\\u2028")
    .replaceAll("\u2029", "\\u2029")
    .replaceAll("\u007f", "\\u007f")
    .replaceAll("\u009b", "\\u009b");
}

function fileSink(file: number): LogSink {
  const write = (line: string): void => appendFileSync(file, line);
  return { out: write, err: write };
}
