/**
 * Finds where a JSON value ends in text that arrives in pieces (RFC 8259), and escapes control characters in its strings:
 * models write line breaks there as they are, and grammars let some pass. Checks nothing else.
 */
import type { TextCursor } from "./text-cursor.ts";

const QUOTE = '"';
const DELIMITERS = ",]} \t\r\n";

export class JsonValueScanner {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #hasBegun = false;
  #isScalar = false;
  isDone = false;

  /** Takes the start of the text that belongs to the value. */
  take(cursor: Pick<TextCursor, "rest" | "take">): string {
    const { rest } = cursor;
    let json = "";
    let from = 0;
    let at = 0;
    while (at < rest.length && !this.isDone) {
      const char = rest.charAt(at);
      if (this.#isInString && char < " ") {
        json += rest.slice(from, at) + this.#escape(char);
        from = at + 1;
      }
      if (!this.#next(char)) break;
      at += 1;
    }
    cursor.take(at);
    return json + rest.slice(from, at);
  }

  /** A backslash in front of it is out already. */
  #escape(char: string): string {
    const escaped = JSON.stringify(char).slice(1, -1);
    return this.#isEscaped ? escaped.slice(1) : escaped;
  }

  /** False: the character is the first behind a number or literal. */
  #next(char: string): boolean {
    if (this.#isInString) {
      this.#nextInString(char);
      return true;
    }
    if (this.#isScalar && DELIMITERS.includes(char)) {
      this.isDone = true;
      return false;
    }
    if (char === QUOTE) this.#isInString = true;
    else if (char === "{" || char === "[") this.#depth += 1;
    else if (char === "}" || char === "]") this.#close();
    else if (!this.#hasBegun) this.#isScalar = true;
    this.#hasBegun = true;
    return true;
  }

  #nextInString(char: string): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (char === "\\") this.#isEscaped = true;
    else if (char === QUOTE) {
      this.#isInString = false;
      this.isDone = this.#depth === 0;
    }
  }

  #close(): void {
    this.#depth -= 1;
    this.isDone = this.#depth <= 0;
  }
}
