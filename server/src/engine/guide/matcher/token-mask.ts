/** Sets of tokens: as numbers where there are few, else a bit for each token of the vocabulary. */

export type TokenMask = { readonly tokens: Int32Array } | { readonly words: Int32Array };

/** More tokens than this are kept as bits. */
const MAX_LISTED = 1024;

export function isAllowed(words: Int32Array, token: number): boolean {
  return (((words[token >> 5] ?? 0) >>> (token & 31)) & 1) === 1;
}

export function setToken(words: Int32Array, token: number, isSet: boolean): void {
  const at = token >> 5;
  const word = words[at];
  if (word === undefined) return;
  const bit = 1 << (token & 31);
  words[at] = isSet ? word | bit : word & ~bit;
}

/** Adds the tokens of a mask. */
export function addMask(words: Int32Array, mask: TokenMask): void {
  if ("tokens" in mask) for (const token of mask.tokens) setToken(words, token, true);
  else for (let i = 0; i < words.length; i++) words[i] = (words[i] ?? 0) | (mask.words[i] ?? 0);
}

export function maskBytes(mask: TokenMask): number {
  return "tokens" in mask ? mask.tokens.byteLength : mask.words.byteLength;
}

/** Gathers tokens, some of them more than once, until they become a mask. */
export class TokenCollector {
  readonly #numWords: number;
  #tokens = new Int32Array(MAX_LISTED);
  #count = 0;
  #words: Int32Array | undefined;

  constructor(vocabSize: number) {
    this.#numWords = Math.ceil(vocabSize / 32);
  }

  add(token: number): void {
    if (this.#words !== undefined) setToken(this.#words, token, true);
    else if (this.#count < MAX_LISTED) this.#tokens[this.#count++] = token;
    else setToken(this.#spread(), token, true);
  }

  addMask(mask: TokenMask): void {
    if ("tokens" in mask) for (const token of mask.tokens) this.add(token);
    else addMask(this.#words ?? this.#spread(), mask);
  }

  /** The collector is empty behind it. */
  finish(): TokenMask {
    const mask = this.#words === undefined ? { tokens: this.#tokens.slice(0, this.#count) } : { words: this.#words };
    this.#count = 0;
    this.#words = undefined;
    return mask;
  }

  #spread(): Int32Array {
    const words = new Int32Array(this.#numWords);
    for (let i = 0; i < this.#count; i++) setToken(words, this.#tokens[i] ?? 0, true);
    this.#words = words;
    return words;
  }
}
