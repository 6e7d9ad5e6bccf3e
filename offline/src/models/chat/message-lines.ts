/** Joins the lines of one message: between `"""` and `"""`, or as long as a line ends in a backslash. Pure. */

const QUOTES = '"""';

export class MessageLines {
  #lines: string[] = [];
  #isQuoted = false;

  /** Whether the next line belongs to a message that has begun. */
  get isOpen(): boolean {
    return this.#isQuoted || this.#lines.length > 0;
  }

  /** The message that this line ends; undefined: it goes on. */
  push(line: string): string | undefined {
    if (this.#isQuoted) return this.#pushQuoted(line);
    const opening = line.trimStart();
    if (!this.isOpen && opening.startsWith(QUOTES)) {
      this.#isQuoted = true;
      const rest = opening.slice(QUOTES.length);
      return rest === "" ? undefined : this.#pushQuoted(rest);
    }
    if (line.endsWith("\\")) {
      this.#lines.push(line.slice(0, -1));
      return undefined;
    }
    return this.#end(line);
  }

  /** Forgets a message that has begun. */
  clear(): void {
    this.#lines = [];
    this.#isQuoted = false;
  }

  #pushQuoted(line: string): string | undefined {
    const end = line.trimEnd();
    if (end.endsWith(QUOTES)) return this.#end(end.slice(0, -QUOTES.length));
    this.#lines.push(line);
    return undefined;
  }

  #end(last: string): string {
    const text = [...this.#lines, last].join("\n");
    const isQuoted = this.#isQuoted;
    this.clear();
    return isQuoted ? text.replace(/\n$/, "") : text;
  }
}
