/**
 * A matcher of the grammar library whose end is a token of its own. The library takes a special token such as `</s>` for
 * text where its letters fit, so that it would end an answer within a string; here it fits only where the grammar may end.
 * Source: own design.
 */
import type { Grammar } from "./guide-grammar.ts";
import type { XGrammarMatcher } from "./load-xgrammar.ts";

const BITS = 32;
/** Members of structural tags that let any text pass, marks of the model's own format among it. */
const FREE_TEXT = /"(?:any_text|triggered_tags)"/;

export interface SpecialToken {
  readonly id: number;
  readonly text: string;
}

/** Special tokens that may stand nowhere in a text of the grammar: decoders leave them out, and strings get too short. */
export function hiddenTokens({ kind, ...grammar }: Grammar, specials: readonly SpecialToken[]): readonly number[] {
  const text = "text" in grammar ? grammar.text : "";
  if (kind === "structural_tag" && FREE_TEXT.test(text)) return [];
  const escaped = (token: string): string => JSON.stringify(token).slice(1, -1);
  return specials.filter((token) => !text.includes(escaped(token.text))).map(({ id }) => id);
}

export class TokenMatcher {
  readonly #matcher: XGrammarMatcher;
  readonly #endIds: readonly number[];
  readonly #hidden: readonly number[];
  /** Stands for all end ids; it is the first id behind the vocabulary. */
  readonly #stopId: number;

  constructor(matcher: XGrammarMatcher, endIds: readonly number[], hidden: readonly number[], stopId: number) {
    this.#matcher = matcher;
    this.#endIds = endIds;
    this.#hidden = hidden;
    this.#stopId = stopId;
  }

  accept(token: number): boolean {
    return this.#matcher.acceptToken(this.#endIds.includes(token) ? this.#stopId : token);
  }

  /** A bit for each token of the vocabulary. */
  async mask(): Promise<Int32Array> {
    const bits = Int32Array.from(await this.#matcher.getNextTokenBitmask());
    const mayEnd = isSet(bits, this.#stopId);
    for (const id of this.#hidden) set(bits, id, false);
    for (const id of this.#endIds) set(bits, id, mayEnd);
    set(bits, this.#stopId, false);
    return bits.subarray(0, Math.ceil(this.#stopId / BITS));
  }

  dispose(): void {
    this.#matcher.dispose();
  }
}

function isSet(bits: Int32Array, id: number): boolean {
  return (((bits[Math.floor(id / BITS)] ?? 0) >>> (id % BITS)) & 1) === 1;
}

function set(bits: Int32Array, id: number, value: boolean): void {
  const at = Math.floor(id / BITS);
  const word = bits[at];
  if (word === undefined) return;
  const bit = 1 << (id % BITS);
  bits[at] = value ? word | bit : word & ~bit;
}
