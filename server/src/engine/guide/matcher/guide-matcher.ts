/** A text under its guide: the state that its tokens have led to, the mask of the next one, and the way back. */

import type { MaskMaker } from "./mask-maker.ts";
import { bytesOfToken, type PackedTokens } from "./packed-tokens.ts";
import type { StackAutomaton } from "./stack-automaton.ts";
import type { StackState } from "./stack-state.ts";
import { setToken } from "./token-mask.ts";

/** Tokens that can be taken back. */
const MAX_ROLLBACK = 256;

export interface MatcherParts {
  readonly automaton: StackAutomaton;
  readonly masks: MaskMaker;
  /** Empty ones fit nowhere. */
  readonly tokens: PackedTokens;
}

export class GuideMatcher {
  readonly #parts: MatcherParts;
  /** Allowed where the text is complete, and nowhere else. */
  readonly #endIds: readonly number[];
  /** Allowed nowhere, whatever their letters are. */
  readonly #hidden: readonly number[];
  /** The last of them is the current one. */
  readonly #states: StackState[];

  constructor(parts: MatcherParts, start: StackState, endIds: readonly number[], hidden: readonly number[]) {
    this.#parts = parts;
    this.#endIds = endIds;
    this.#hidden = hidden;
    this.#states = [start];
  }

  /** The current state and those on the way back. */
  get states(): readonly StackState[] {
    return this.#states;
  }

  /** False: the token does not fit. */
  accept(token: number): boolean {
    const next = this.#next(token);
    if (next === undefined) return false;
    this.#states.push(next);
    if (this.#states.length > MAX_ROLLBACK + 1) this.#states.shift();
    return true;
  }

  /** Takes the last tokens back. @throws RangeError beyond those that are kept */
  rollback(numTokens: number): void {
    if (numTokens >= this.#states.length) throw new RangeError(`${numTokens} tokens cannot be taken back`);
    this.#states.length -= numTokens;
  }

  /** Writes a bit for each token that may come next. */
  writeMask(words: Int32Array): void {
    const { automaton, masks } = this.#parts;
    const state = this.#states.at(-1) ?? automaton.dead;
    masks.writeTokens(words, state);
    for (const id of this.#hidden) setToken(words, id, false);
    for (const id of this.#endIds) setToken(words, id, state.mayEnd);
  }

  #next(token: number): StackState | undefined {
    const { automaton, tokens } = this.#parts;
    let state = this.#states.at(-1) ?? automaton.dead;
    if (this.#endIds.includes(token)) return state.mayEnd ? automaton.dead : undefined;
    const bytes = bytesOfToken(tokens, token);
    if (bytes.length === 0) return undefined;
    for (const byte of bytes) state = automaton.step(state, byte);
    return state === automaton.dead ? undefined : state;
  }
}
