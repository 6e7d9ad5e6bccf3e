/** Turns the output of a process into lines for the log. Knows no process. */
import { StringDecoder } from "node:string_decoder";

/** A longer line is cut: a model that never ends a line must not fill the server's memory. */
const MAX_LINE_CHARACTERS = 16_384;

export class LineSplitter {
  readonly #decoder: StringDecoder = new StringDecoder("utf8");
  readonly #deliver: (line: string) => void;
  #rest = "";

  constructor(deliver: (line: string) => void) {
    this.#deliver = deliver;
  }

  push(chunk: Buffer): void {
    const lines = (this.#rest + this.#decoder.write(chunk)).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) this.#deliver(line.endsWith("\r") ? line.slice(0, -1) : line);
    while (this.#rest.length > MAX_LINE_CHARACTERS) {
      this.#deliver(this.#rest.slice(0, MAX_LINE_CHARACTERS));
      this.#rest = this.#rest.slice(MAX_LINE_CHARACTERS);
    }
  }

  /** Delivers a last line that has no end. */
  end(): void {
    const rest = this.#rest + this.#decoder.end();
    this.#rest = "";
    if (rest.length > 0) this.#deliver(rest);
  }
}
