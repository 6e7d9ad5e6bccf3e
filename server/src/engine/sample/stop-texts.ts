/**
 * Finds stop words in the text of the output as it grows, wherever token borders fall: the same word has other ids in
 * other surroundings. Knows tokens only through the tokenizer it is given.
 */
import type { Detokenizer } from "../../formats/tokenizer/detokenizer.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";

export class StopTexts {
  readonly #texts: readonly string[];
  readonly #detokenizer: Detokenizer;
  /** As much of the text so far as the beginning of a word can be. */
  #tail = "";
  readonly #tailLength: number;
  readonly #scratch = new Int32Array(1);

  private constructor(texts: readonly string[], detokenizer: Detokenizer) {
    this.#texts = texts;
    this.#detokenizer = detokenizer;
    this.#tailLength = Math.max(...texts.map((text) => text.length)) - 1;
  }

  /** Undefined when none of the words has a text of its own: special tokens and parts of characters go by their ids. */
  static tryCreate(tokenizer: Tokenizer, words: readonly Int32Array[]): StopTexts | undefined {
    const texts = words
      .filter((word) => word.every((id) => tokenizer.tokenOf(id) !== undefined && !tokenizer.specialIds.has(id)))
      .map((word) => tokenizer.decode(word, { skipSpecialTokens: false }))
      .filter((text) => text !== "" && !text.includes("\ufffd"));
    if (texts.length === 0) return undefined;
    return new StopTexts(texts, tokenizer.createDetokenizer({ skipSpecialTokens: true }));
  }

  /** Takes the next token; true when it completes a word. */
  push(token: number): boolean {
    this.#scratch[0] = token;
    const added = this.#detokenizer.push(this.#scratch);
    if (added === "") return false;
    const text = this.#tail + added;
    this.#tail = this.#tailLength > 0 ? text.slice(-this.#tailLength) : "";
    return this.#texts.some((word) => text.includes(word));
  }
}
