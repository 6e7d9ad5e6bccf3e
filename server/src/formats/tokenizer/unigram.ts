/**
 * Unigram tokenization: the division of a text whose tokens have the largest sum of scores (Viterbi). Sources: Kudo 2018;
 * SentencePiece, unigram_model.cc and normalizer.cc. Works on bytes; texts between added tokens are encoded alone.
 */
import type { IdList } from "./byte-level-bpe.ts";
import type { PrecompiledCharsmap } from "./precompiled-charsmap.ts";
import type { Pauses, SectionCodec } from "./section-encoder.ts";
import type { TokenTrie } from "./token-trie.ts";

export interface UnigramRules {
  /** Over bytes. */
  readonly trie: TokenTrie;
  /** By token id. */
  readonly scores: Float64Array;
  readonly unknownId: number;
  /** Score of a character that is no token. */
  readonly unknownScore: number;
  readonly charsmap: PrecompiledCharsmap | undefined;
  /** A space goes in front of the text. */
  readonly addsPrefix: boolean;
  /** Runs of spaces become one, and those around the text none. */
  readonly mergesSpaces: boolean;
}

const SPACE = 0x20;
/** U+2581 in UTF-8. */
const MARK: readonly number[] = [0xe2, 0x96, 0x81];
const BYTES_PER_STEP = 16_384;

export class UnigramCodec implements SectionCodec {
  readonly #rules: UnigramRules;
  readonly #encoder = new TextEncoder();

  constructor(rules: UnigramRules) {
    this.#rules = rules;
  }

  normalize(section: string): string {
    return section;
  }

  *encodeSection(section: string, _isFirst: boolean, out: IdList): Pauses {
    const bytes = this.#spaced(this.#mapped(this.#encoder.encode(section)));
    const paths = new BestPaths(bytes.length, this.#rules.unknownId);
    let pauseAt = BYTES_PER_STEP;
    for (let at = 0; at < bytes.length; at += characterBytes(bytes, at)) {
      this.#extend(paths, bytes, at);
      if (at < pauseAt) continue;
      pauseAt = at + BYTES_PER_STEP;
      yield;
    }
    for (const id of paths.best()) out.push(id);
  }

  /** Each token that begins at a position, and the unknown token if the character is none. */
  #extend(paths: BestPaths, bytes: Uint8Array, from: number): void {
    const { trie, scores, unknownId, unknownScore } = this.#rules;
    const width = characterBytes(bytes, from);
    let isKnown = false;
    let node = trie.root;
    for (let at = from; at < bytes.length; at++) {
      node = trie.next(node, bytes[at] ?? 0);
      if (node < 0) break;
      const token = trie.tokenAt(node);
      if (token === undefined) continue;
      if (at + 1 - from === width) isKnown = true;
      paths.offer(from, at + 1, token, scores[token] ?? 0);
    }
    if (!isKnown) paths.offer(from, from + width, unknownId, unknownScore);
  }

  #mapped(bytes: Uint8Array): Uint8Array {
    const { charsmap } = this.#rules;
    if (charsmap === undefined) return bytes;
    const parts: Uint8Array[] = [];
    let kept = 0;
    for (let at = 0; at < bytes.length; ) {
      const found = charsmap.longest(bytes, at);
      if (found === undefined) {
        at += characterBytes(bytes, at);
        continue;
      }
      parts.push(bytes.subarray(kept, at), found.bytes);
      at += found.length;
      kept = at;
    }
    return Buffer.concat([...parts, bytes.subarray(kept)]);
  }

  #spaced(bytes: Uint8Array): Uint8Array {
    const { addsPrefix, mergesSpaces } = this.#rules;
    const spaced: number[] = [];
    let hasPrefix = false;
    let isInWord = false;
    for (const byte of bytes) {
      if (byte === SPACE) {
        isInWord = false;
        if (!mergesSpaces) spaced.push(...MARK);
        continue;
      }
      if (!isInWord && (mergesSpaces || (addsPrefix && !hasPrefix))) {
        spaced.push(...MARK);
        hasPrefix = true;
      }
      isInWord = true;
      spaced.push(byte);
    }
    return Uint8Array.from(spaced);
  }
}

/** The best path to each position of a text. */
class BestPaths {
  readonly #scores: Float64Array;
  readonly #tokens: Int32Array;
  readonly #starts: Int32Array;
  readonly #unknownId: number;

  constructor(length: number, unknownId: number) {
    this.#scores = new Float64Array(length + 1).fill(Number.NEGATIVE_INFINITY);
    this.#scores[0] = 0;
    this.#tokens = new Int32Array(length + 1);
    this.#starts = new Int32Array(length + 1);
    this.#unknownId = unknownId;
  }

  /** The first of equal paths stays. */
  offer(from: number, to: number, token: number, score: number): void {
    const sum = (this.#scores[from] ?? 0) + score;
    if (sum <= (this.#scores[to] ?? 0)) return;
    this.#scores[to] = sum;
    this.#tokens[to] = token;
    this.#starts[to] = from;
  }

  /** Neighbouring unknown tokens are one. */
  best(): readonly number[] {
    const ids: number[] = [];
    for (let at = this.#scores.length - 1; at > 0; at = this.#starts[at] ?? 0) {
      const token = this.#tokens[at] ?? 0;
      if (token !== this.#unknownId || ids.at(-1) !== token) ids.push(token);
    }
    return ids.reverse();
  }
}

/** Bytes of the UTF-8 character at a position. */
function characterBytes(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0;
  const width = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  return Math.min(width, bytes.length - at);
}
