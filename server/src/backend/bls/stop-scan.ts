/** Finds the first stop word in a text that comes in pieces, also one that is spread over several. Pure. */

export class StopScan {
  readonly #words: readonly string[];
  readonly #tailLength: number;
  /** The end of what came before: as much as a word can begin in. */
  #tail = "";
  #isOver = false;

  constructor(words: readonly string[]) {
    this.#words = words.filter((word) => word !== "");
    this.#tailLength = this.#words.reduce((most, { length }) => Math.max(most, length - 1), 0);
  }

  /** A stop word was found: the text has ended. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * The part of the piece that belongs to the text: all of it, up to and including a stop word, or nothing after one.
   */
  push(piece: string): string {
    if (this.#isOver) return "";
    const known = this.#tail.length;
    const window = this.#tail + piece;
    let end = Number.POSITIVE_INFINITY;
    for (const word of this.#words) {
      const at = window.indexOf(word, Math.max(0, known - word.length + 1));
      if (at >= 0) end = Math.min(end, at + word.length);
    }
    this.#isOver = end <= window.length;
    this.#tail = this.#tailLength === 0 ? "" : window.slice(-this.#tailLength);
    return this.#isOver ? window.slice(known, end) : piece;
  }
}
