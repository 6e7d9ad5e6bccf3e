/** Finds where a JSON value ends in text that arrives in pieces (RFC 8259). Checks nothing else: the grammar did, or nobody can. */

const QUOTE = '"';
const DELIMITERS = ",]} \t\r\n";

export class JsonValueScanner {
  #depth = 0;
  #isInString = false;
  #isEscaped = false;
  #hasBegun = false;
  #isScalar = false;
  isDone = false;

  /** Length of the start of the text that belongs to the value. */
  scan(text: string): number {
    let at = 0;
    while (at < text.length && !this.isDone) {
      if (!this.#next(text.charAt(at))) break;
      at += 1;
    }
    return at;
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
