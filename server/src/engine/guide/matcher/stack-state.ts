/**
 * States of the pushdown automaton of a grammar: all stacks that the text so far may have led to. Stacks share what lies
 * below, and stacks with the same top are merged there, so that a state is a small graph, and equal states are the same
 * object. Source: Tomita's graph-structured stack ("Efficient parsing for natural language", 1986), kept minimal like the
 * acyclic automata of Daciuk et al. (2000). Grammars without left recursion have finite stacks.
 */
import type { ByteSet } from "../grammar/byte-set.ts";
import type { Term } from "../grammar/term.ts";

export interface StackState {
  readonly id: number;
  /** By id of the term; each term once. */
  readonly items: readonly StackItem[];
  /** Whether the bottom of a whole text is among the tops, or the bottom of a part whose surroundings are not known. */
  readonly isEnd: boolean;
  readonly isExit: boolean;
  /** Whether one of these bottoms is reached without a further byte. */
  readonly mayEnd: boolean;
  readonly mayExit: boolean;
  /** Bytes that may come next, and what they lead to; undefined until it is asked for. */
  edges: readonly StackEdge[] | undefined;
  first: ByteSet | undefined;
  /** States by byte where few bytes may come. */
  few: Map<number, StackState> | undefined;
  /** Numbers of states by byte where many may, [256]; -1 = not known yet. */
  table: Int32Array | undefined;
}

/** The term on top is to be matched first, then one of the stacks below. */
export interface StackItem {
  readonly term: Term;
  readonly below: StackState;
}

/** The frames are to be pushed on `below`. */
export interface StackEdge {
  readonly bytes: ByteSet;
  readonly frames: readonly Term[];
  readonly below: StackState;
}
