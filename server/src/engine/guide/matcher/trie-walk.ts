/** Walks a trie of tokens with the automaton: tokens that fit a state, without those that begin like one that does not. */
import { charge } from "../budget.ts";
import type { StackAutomaton } from "./stack-automaton.ts";
import type { StackState } from "./stack-state.ts";
import type { TokenCollector } from "./token-mask.ts";
import type { VocabularyTrie } from "./vocabulary-trie.ts";

export interface TrieVisitor {
  /** The text up to the node fits, and has led to `state`. */
  alive(node: number, state: StackState): void;
  /** The text does not fit from this node on. */
  dead?(node: number): void;
}

/** A subtree; `top` is node 0 for all tokens, else a node whose own byte is the first. */
export interface Subtree {
  readonly trie: VocabularyTrie;
  readonly top: number;
}

export class TrieWalker {
  readonly #automaton: StackAutomaton;
  /** States on the way to the current node, by depth. */
  readonly #path: StackState[] = [];

  constructor(automaton: StackAutomaton) {
    this.#automaton = automaton;
  }

  walk({ trie, top }: Subtree, start: StackState, visitor: TrieVisitor): void {
    const { bytes, depths, ends } = trie;
    const automaton = this.#automaton;
    const { dead } = automaton;
    const path = this.#path;
    const first = top === 0 ? 1 : top;
    const end = ends[top] ?? 0;
    path[(depths[first] ?? 1) - 1] = start;
    let numSeen = 0;
    for (let node = first; node < end; numSeen++) {
      const depth = depths[node] ?? 0;
      const state = automaton.step(path[depth - 1] ?? dead, bytes[node] ?? 0);
      if (state === dead) {
        visitor.dead?.(node);
        node = ends[node] ?? end;
        continue;
      }
      path[depth] = state;
      visitor.alive(node, state);
      node += 1;
    }
    charge(automaton.budget, numSeen);
  }
}

/** Gathers the tokens that fit, and the nodes at which the part of a text may be complete. */
export class FittingTokens implements TrieVisitor {
  readonly exits: number[] = [];
  readonly #trie: VocabularyTrie;
  readonly #collector: TokenCollector;

  constructor(trie: VocabularyTrie, collector: TokenCollector) {
    this.#trie = trie;
    this.#collector = collector;
  }

  alive(node: number, { mayExit }: StackState): void {
    const { tokenStarts, tokens } = this.#trie;
    const end = tokenStarts[node + 1] ?? 0;
    for (let i = tokenStarts[node] ?? 0; i < end; i++) this.#collector.add(tokens[i] ?? 0);
    if (mayExit) this.exits.push(node);
  }
}
