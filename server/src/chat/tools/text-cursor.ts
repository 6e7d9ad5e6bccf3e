/** Text that arrives in pieces, read from the front. A question whose answer needs more text is answered "more". */

export type Match = "yes" | "no" | "more";

export class TextCursor {
  #text = "";
  #at = 0;
  #isEnded = false;

  append(text: string): void {
    this.#text = this.#text.slice(this.#at) + text;
    this.#at = 0;
  }

  /** No more text comes: what is undecided is decided now. */
  end(): void {
    this.#isEnded = true;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  get isEmpty(): boolean {
    return this.#at === this.#text.length;
  }

  /** All that is there, not taken. */
  get rest(): string {
    return this.#text.slice(this.#at);
  }

  take(length: number): string {
    const taken = this.#text.slice(this.#at, this.#at + length);
    this.#at += taken.length;
    return taken;
  }

  takeAll(): string {
    return this.take(this.#text.length - this.#at);
  }

  /** Takes white space. "more": nothing else is there. */
  skipSpace(): Match {
    while (this.#at < this.#text.length && isSpace(this.#text.charCodeAt(this.#at))) this.#at += 1;
    return this.isEmpty && !this.#isEnded ? "more" : "yes";
  }

  /** Takes a mark when it is next. */
  skip(mark: string): Match {
    const rest = this.#text.slice(this.#at, this.#at + mark.length);
    if (rest === mark) {
      this.#at += mark.length;
      return "yes";
    }
    return mark.startsWith(rest) && !this.#isEnded ? "more" : "no";
  }

  /** The text before the first of a mark, which is taken too; undefined: not there yet. */
  takeUntil(mark: string): string | undefined {
    const found = this.#text.indexOf(mark, this.#at);
    if (found < 0) return undefined;
    const taken = this.#text.slice(this.#at, found);
    this.#at = found + mark.length;
    return taken;
  }

  /** Characters that cannot belong to a mark that is still arriving. */
  numSafe(marks: readonly string[]): number {
    const { rest } = this;
    if (this.#isEnded) return rest.length;
    const held = Math.max(0, ...marks.map((mark) => overlap(rest, mark)));
    return rest.length - held;
  }
}

/** Length of the longest end of the text that begins the mark. */
function overlap(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length > 0; length -= 1) {
    if (text.endsWith(mark.slice(0, length))) return length;
  }
  return 0;
}

function isSpace(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d);
}
