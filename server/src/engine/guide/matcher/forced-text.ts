/** The bytes that every text under a grammar goes on with: the automaton is followed while one byte alone may come. */
import { bytesOf, countBytes } from "../grammar/byte-set.ts";
import type { StackAutomaton } from "./stack-automaton.ts";
import type { StackState } from "./stack-state.ts";

/** Empty where the text may end or go on in several ways. */
export function forcedText(automaton: StackAutomaton, start: StackState, maxBytes: number): Uint8Array {
  const text: number[] = [];
  for (let state = start; text.length < maxBytes && !state.mayEnd; ) {
    const next = automaton.firstBytes(state);
    const [byte] = countBytes(next) === 1 ? bytesOf(next) : [];
    if (byte === undefined) break;
    text.push(byte);
    state = automaton.step(state, byte);
  }
  return Uint8Array.from(text);
}
