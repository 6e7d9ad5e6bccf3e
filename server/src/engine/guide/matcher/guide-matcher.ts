/** A text under its guide: the state that its tokens have led to, the mask of the next one, and the way back. */

import { type ForcedRun, MAX_FORCED, maskBehind } from "../forced-run.ts";
import { forcedText } from "./forced-text.ts";
import type { MaskMaker } from "./mask-maker.ts";
import { mergeTokens } from "./merge-tokens.ts";
import { bytesOfToken, type PackedTokens } from "./packed-tokens.ts";
import type { StackAutomaton } from "./stack-automaton.ts";
import type { StackState } from "./stack-state.ts";
import { setToken } from "./token-mask.ts";
import type { VocabularyTrie } from "./vocabulary-trie.ts";

/** Tokens that can be taken back. */
const MAX_ROLLBACK = 256;
/** Names of fields are shorter; a longer text goes on with the next run. */
const MAX_FORCED_BYTES = 64;

export interface MatcherParts {
  readonly automaton: StackAutomaton;
  readonly masks: MaskMaker;
  /** Empty ones fit nowhere. */
  readonly tokens: PackedTokens;
  readonly trie: VocabularyTrie;
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
    this.#writeMask(words, this.#states.at(-1) ?? this.#parts.automaton.dead);
  }

  /** Writes the tokens that must come next, with the mask behind each of them. */
  writeForced(run: ForcedRun): void {
    const { automaton, tokens, trie } = this.#parts;
    let state = this.#states.at(-1) ?? automaton.dead;
    const forced = mergeTokens(forcedText(automaton, state, MAX_FORCED_BYTES), trie) ?? [];
    let count = 0;
    for (const token of forced.slice(0, MAX_FORCED)) {
      if (this.#hidden.includes(token) || this.#endIds.includes(token)) break;
      for (const byte of bytesOfToken(tokens, token)) state = automaton.step(state, byte);
      run.tokens[1 + count] = token;
      this.#writeMask(maskBehind(run, count), state);
      count += 1;
    }
    run.tokens[0] = count;
  }

  #writeMask(words: Int32Array, state: StackState): void {
    const { masks } = this.#parts;
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
