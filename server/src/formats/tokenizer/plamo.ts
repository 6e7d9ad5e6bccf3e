/**
 * PLaMo 2's tokenization: the division with the largest sum of scores, searched from the end; characters outside of the
 * vocabulary become bytes. Source: pfnet/plamo-2 tokenization_plamo.py.
 */
import type { IdList } from "./byte-level-bpe.ts";
import type { Pauses, SectionCodec } from "./section-encoder.ts";
import type { TokenTrie } from "./token-trie.ts";

export interface PlamoRules {
  /** Over UTF-16 units, without the tokens of bytes. */
  readonly trie: TokenTrie;
  /** By token id, in ten thousandths: sums of integers are exact. */
  readonly scores: Int32Array;
  /** Token of each byte. */
  readonly byteIds: readonly number[];
}

const UNKNOWN_SCORE = -10_000_000;
const UNITS_PER_STEP = 16_384;
const BYTE_ORDER_MARK = "\ufeff";

export class PlamoCodec implements SectionCodec {
  readonly #rules: PlamoRules;
  readonly #encoder = new TextEncoder();

  constructor(rules: PlamoRules) {
    this.#rules = rules;
  }

  normalize(section: string): string {
    return section;
  }

  *encodeSection(section: string, _isFirst: boolean, out: IdList): Pauses {
    const text = wellFormed(section.startsWith(BYTE_ORDER_MARK) ? section.slice(1) : section);
    const units = Uint16Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
    const sums = new Float64Array(units.length + 1).fill(Number.NEGATIVE_INFINITY);
    sums[units.length] = 0;
    const tokens = new Int32Array(units.length);
    const lengths = new Int32Array(units.length);
    for (let at = units.length - 1; at >= 0; at--) {
      if (!isSecondHalf(units[at])) this.#choose(units, at, { sums, tokens, lengths });
      if (at % UNITS_PER_STEP === 0) yield;
    }
    for (let at = 0; at < units.length; at += lengths[at] ?? 1) {
      const token = tokens[at] ?? -1;
      if (token >= 0) out.push(token);
      else this.#pushBytes(text.slice(at, at + (lengths[at] ?? 1)), out);
    }
  }

  /** The longest of equal tokens. */
  #choose(units: Uint16Array, at: number, to: { sums: Float64Array; tokens: Int32Array; lengths: Int32Array }): void {
    const { trie, scores } = this.#rules;
    const width = isSecondHalf(units[at + 1]) ? 2 : 1;
    let best = UNKNOWN_SCORE + (to.sums[at + width] ?? 0);
    let [token, length] = [-1, width];
    let node = trie.root;
    for (let end = at; end < units.length; end++) {
      node = trie.next(node, units[end] ?? 0);
      if (node < 0) break;
      const candidate = trie.tokenAt(node);
      if (candidate === undefined) continue;
      const sum = (scores[candidate] ?? 0) + (to.sums[end + 1] ?? 0);
      if (sum < best) continue;
      best = sum;
      [token, length] = [candidate, end + 1 - at];
    }
    to.sums[at] = best;
    to.tokens[at] = token;
    to.lengths[at] = length;
  }

  #pushBytes(char: string, out: IdList): void {
    for (const byte of this.#encoder.encode(char)) out.push(this.#rules.byteIds[byte] ?? 0);
  }
}

function isSecondHalf(unit: number | undefined): boolean {
  return unit !== undefined && unit >= 0xdc00 && unit <= 0xdfff;
}

/** Halves of characters become U+FFFD, as in UTF-8. */
function wellFormed(text: string): string {
  return Buffer.from(text, "utf8").toString("utf8");
}
