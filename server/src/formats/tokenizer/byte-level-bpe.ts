/**
 * Byte-level BPE (Sennrich et al. 2016; GPT-2) over a checked vocabulary: words to ids. Frequent words come from a
 * bounded cache, the rest is merged. Does not split text into words and knows no special tokens.
 */
import { BYTE_TO_CHAR, tryBytesOfToken } from "./byte-level-alphabet.ts";
import { createPairTable, type PairTable, WordMerge } from "./byte-level-merge.ts";

/** A checked `BPE` model section: every merge names three ids of the vocabulary. */
export interface BpeRules {
  readonly vocabulary: ReadonlyMap<string, number>;
  /** In rank order. */
  readonly merges: readonly (readonly [left: string, right: string])[];
  /** A word that is a token is taken whole (`ignore_merges`). */
  readonly ignoreMerges: boolean;
}

/** Maximum characters of a cached word: longer ones seldom repeat. */
const MAX_CACHED_WORD_CHARS = 64;
/** Words of each of the two cache generations; about 4 MB in all. */
const CACHE_GENERATION_WORDS = 16_384;
/** Bytes of the reused scratch arrays; a longer word allocates its own and drops them. */
const SCRATCH_BYTES = 4096;
/** Merge candidates between two pauses: about 5 ms. */
const CANDIDATES_PER_STEP = 32_768;

/** A growing list of token ids. */
export class IdList {
  #ids: Int32Array<ArrayBuffer>;
  #length = 0;

  constructor(capacity: number) {
    this.#ids = new Int32Array(Math.max(16, capacity));
  }

  get length(): number {
    return this.#length;
  }

  push(id: number): void {
    if (this.#length === this.#ids.length) this.#grow(this.#length + 1);
    this.#ids[this.#length++] = id;
  }

  append(ids: Int32Array): void {
    if (this.#length + ids.length > this.#ids.length) this.#grow(this.#length + ids.length);
    this.#ids.set(ids, this.#length);
    this.#length += ids.length;
  }

  /** The ids so far; shares memory with the list. */
  values(): Int32Array<ArrayBuffer> {
    return this.#ids.subarray(0, this.#length);
  }

  #grow(atLeast: number): void {
    const ids = new Int32Array(Math.max(atLeast, this.#ids.length * 2));
    ids.set(this.#ids);
    this.#ids = ids;
  }
}

export class ByteLevelBpe {
  readonly #pairs: PairTable;
  readonly #byteIds: Int32Array;
  /** Token texts, kept only for `ignoreMerges`. */
  readonly #wholeWords: ReadonlyMap<string, number>;
  readonly #scratch: WordMerge;
  readonly #bytes: Uint8Array<ArrayBuffer> = new Uint8Array(SCRATCH_BYTES);
  readonly #encoder = new TextEncoder();
  #young = new Map<string, Int32Array>();
  #old = new Map<string, Int32Array>();

  /** @throws Error naming what is missing when a byte or a merged token has no id */
  constructor(rules: BpeRules) {
    this.#byteIds = byteIds(rules.vocabulary);
    this.#pairs = createPairTable(rules.vocabulary, rules.merges);
    this.#wholeWords = rules.ignoreMerges ? tokensAsText(rules.vocabulary) : new Map();
    this.#scratch = new WordMerge(this.#pairs);
  }

  /** Appends the ids of a word of any length, pausing (yields) between stretches of work. */
  *encodeLong(word: string, out: IdList): Generator<undefined, void, undefined> {
    const whole = this.#wholeWords.get(word);
    if (whole !== undefined) {
      out.push(whole);
      return;
    }
    const bytes = this.#encoder.encode(word);
    const merge = new WordMerge(this.#pairs);
    this.#start(merge, bytes, bytes.length);
    while (!merge.run(CANDIDATES_PER_STEP)) yield;
    out.append(merge.reserve(bytes.length).subarray(0, merge.finish()));
  }

  /** Appends the ids of a word that fits the scratch arrays; false when it does not. Hot: no allocation on a cache hit. */
  tryEncodeShort(word: string, out: IdList): boolean {
    if (word.length * 3 > SCRATCH_BYTES) return false;
    const isCached = word.length <= MAX_CACHED_WORD_CHARS;
    const known = isCached ? this.#recall(word) : undefined;
    if (known !== undefined) {
      out.append(known);
      return true;
    }
    const { written } = this.#encoder.encodeInto(word, this.#bytes);
    const ids = this.#merged(word, written);
    out.append(ids);
    // Build the key from the bytes: a slice of a prompt would keep the whole prompt in memory.
    if (isCached) this.#remember(Buffer.from(this.#bytes.buffer, 0, written).toString("utf8"), ids.slice());
    return true;
  }

  #merged(word: string, numBytes: number): Int32Array {
    const whole = this.#wholeWords.get(word);
    if (whole !== undefined) return Int32Array.of(whole);
    this.#start(this.#scratch, this.#bytes, numBytes);
    this.#scratch.run(Number.POSITIVE_INFINITY);
    return this.#scratch.reserve(numBytes).subarray(0, this.#scratch.finish());
  }

  #start(merge: WordMerge, bytes: Uint8Array, numBytes: number): void {
    const ids = merge.reserve(numBytes);
    for (let i = 0; i < numBytes; i++) ids[i] = this.#byteIds[bytes[i] ?? 0] ?? 0;
    merge.start(numBytes);
  }

  /** Two generations instead of an exact LRU: a hit costs one lookup, and the size stays bounded. */
  #recall(word: string): Int32Array | undefined {
    const young = this.#young.get(word);
    if (young !== undefined) return young;
    const old = this.#old.get(word);
    if (old !== undefined) this.#remember(word, old);
    return old;
  }

  #remember(word: string, ids: Int32Array): void {
    if (this.#young.size >= CACHE_GENERATION_WORDS) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(word, ids);
  }
}

function byteIds(vocabulary: ReadonlyMap<string, number>): Int32Array {
  return Int32Array.from(BYTE_TO_CHAR, (char, byte) => {
    const id = vocabulary.get(char);
    if (id === undefined) throw new Error(`vocabulary has no token for byte ${byte} (expected "${char}")`);
    return id;
  });
}

function tokensAsText(vocabulary: ReadonlyMap<string, number>): Map<string, number> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const words = new Map<string, number>();
  for (const [token, id] of vocabulary) {
    const bytes = tryBytesOfToken(token);
    if (bytes === undefined) continue;
    try {
      words.set(decoder.decode(bytes), id);
    } catch {
      // An incomplete character: no word of text can equal it.
    }
  }
  return words;
}
