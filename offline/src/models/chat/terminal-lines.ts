/** Lines that a user types: one at a time, those typed ahead in order, with a history that outlives the program. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface, type Interface } from "node:readline";

const HISTORY_LINES = 500;

export interface TerminalLinesOptions {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  readonly historyFile: string;
  /** Control-C, at any time. */
  readonly onInterrupt: () => void;
}

export class TerminalLines implements Disposable {
  readonly #lines: Interface;
  readonly #ahead: string[] = [];
  #waiting: ((line: string | undefined) => void) | undefined;
  #hasEnded = false;

  constructor({ input, output, historyFile, onInterrupt }: TerminalLinesOptions) {
    const history = readHistory(historyFile);
    this.#lines = createInterface({
      input,
      output,
      terminal: true,
      history,
      historySize: HISTORY_LINES,
      removeHistoryDuplicates: true,
    });
    this.#lines.on("line", (line) => this.#arrive(line));
    this.#lines.on("SIGINT", onInterrupt);
    this.#lines.on("history", (entries: string[]) => writeHistory(historyFile, entries));
    this.#lines.on("close", () => {
      this.#hasEnded = true;
      this.#waiting?.(undefined);
    });
  }

  /** The next line; undefined after control-D. */
  next(prompt: string): Promise<string | undefined> {
    const line = this.#ahead.shift();
    if (line !== undefined || this.#hasEnded) return Promise.resolve(line);
    this.#lines.setPrompt(prompt);
    this.#lines.prompt();
    return new Promise((resolve) => {
      this.#waiting = (next) => {
        this.#waiting = undefined;
        resolve(next);
      };
    });
  }

  /** Drops what stands on the line that is being typed, and shows the prompt again. */
  restart(prompt: string): void {
    this.#lines.write(null, { ctrl: true, name: "e" });
    this.#lines.write(null, { ctrl: true, name: "u" });
    this.#lines.setPrompt(prompt);
    this.#lines.prompt();
  }

  [Symbol.dispose](): void {
    this.#lines.close();
  }

  #arrive(line: string): void {
    if (this.#waiting === undefined) this.#ahead.push(line);
    else this.#waiting(line);
  }
}

/** Newest first, as readline has them. */
function readHistory(path: string): string[] {
  try {
    return readFileSync(path, "utf8").split("\n").filter(Boolean).slice(0, HISTORY_LINES);
  } catch {
    return []; // the first chat
  }
}

function writeHistory(path: string, entries: readonly string[]): void {
  try {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, `${entries.join("\n")}\n`, { mode: 0o600 });
  } catch {
    // a chat goes on without a history
  }
}
