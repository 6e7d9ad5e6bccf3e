/**
 * Writes trace files: the main file, whose array is closed at the end, and numbered files that are complete at once.
 * Writes are queued and block nobody. Knows text, not traces.
 */
import { type FileHandle, open, writeFile } from "node:fs/promises";
import type { Logger } from "../log.ts";

/** Maximum pending text: beyond it traces are dropped and logged. */
const MAX_WAITING_CHARS: number = 64 * 1024 * 1024;
const LOG_LOCATION = "tracer";

export class TraceFile {
  readonly #path: string;
  readonly #log: Logger;
  #handle: FileHandle | undefined;
  #nextIndex = 0;
  #waitingChars = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string, log: Logger) {
    this.#path = path;
    this.#log = log;
  }

  /** Appends elements to the array of the file. */
  append(elements: string): void {
    this.#queue(elements, () => this.#append(elements));
  }

  /** Writes elements as a complete array to the next numbered file. */
  writeNumbered(elements: string): void {
    const path = `${this.#path}.${this.#nextIndex}`;
    this.#nextIndex += 1;
    this.#queue(elements, () => writeFile(path, `[${elements}]`));
  }

  /** Resolves when all writes are done; never rejects. */
  async close(): Promise<void> {
    this.#queue("", async () => {
      await this.#handle?.write("]");
      await this.#handle?.close();
      this.#handle = undefined;
    });
    await this.#writing;
  }

  #queue(text: string, write: () => Promise<void>): void {
    if (this.#waitingChars + text.length > MAX_WAITING_CHARS) {
      this.#log.error(LOG_LOCATION, `traces are lost: '${this.#path}' is written more slowly than they come`);
      return;
    }
    this.#waitingChars += text.length;
    this.#writing = this.#writing.then(write).then(
      () => this.#written(text),
      (error: unknown) => {
        this.#written(text);
        this.#log.error(LOG_LOCATION, `failed creating trace file: ${String(error)}`);
      },
    );
  }

  #written(text: string): void {
    this.#waitingChars -= text.length;
  }

  async #append(elements: string): Promise<void> {
    const isFirst = this.#handle === undefined;
    this.#handle ??= await open(this.#path, "w");
    await this.#handle.writeFile(`${isFirst ? "[" : ","}${elements}`);
  }
}
