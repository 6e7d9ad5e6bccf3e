/**
 * Tokens that are runs of the characters of one class, by the number of characters: strings with a minimal or maximal
 * length need a mask for each number that is left, and all of them come from one walk over the vocabulary.
 */
import type { Term } from "../grammar/term.ts";
import type { TermStore } from "../grammar/term-store.ts";
import type { StackAutomaton } from "./stack-automaton.ts";
import type { StackState } from "./stack-state.ts";
import { maskBytes, TokenCollector, type TokenMask } from "./token-mask.ts";
import type { TrieVisitor, TrieWalker } from "./trie-walk.ts";
import type { VocabularyTrie } from "./vocabulary-trie.ts";

export interface CharacterRuns {
  /** Runs of at most as many characters as the index says. The last holds them all. */
  readonly upTo: readonly TokenMask[];
  /** Nodes of the trie whose byte fits no more, by the number of whole characters before them. */
  readonly leaving: readonly (readonly number[])[];
  readonly numBytes: number;
}

/** @param character one character of the class */
export function characterRuns(
  character: Term,
  trie: VocabularyTrie,
  vocabSize: number,
  parts: { readonly terms: TermStore; readonly automaton: StackAutomaton; readonly walker: TrieWalker },
): CharacterRuns {
  const { terms, automaton, walker } = parts;
  const loop = terms.repeat(character, 0, Number.POSITIVE_INFINITY);
  const counter = new RunCounter(trie);
  walker.walk({ trie, top: 0 }, automaton.push(loop, automaton.exit), counter);
  const collector = new TokenCollector(vocabSize);
  const upTo: TokenMask[] = [];
  for (const tokens of counter.tokens) {
    const before = upTo.at(-1);
    if (before !== undefined) collector.addMask(before);
    for (const token of tokens) collector.add(token);
    upTo.push(collector.finish());
  }
  const { leaving } = counter;
  const numBytes = upTo.reduce((sum, mask) => sum + maskBytes(mask), 8 * leaving.flat().length);
  return { upTo, leaving, numBytes };
}

class RunCounter implements TrieVisitor {
  /** By the number of characters that the token has, a begun one included. */
  readonly tokens: number[][] = [[]];
  readonly leaving: number[][] = [];
  readonly #trie: VocabularyTrie;
  /** Whole characters up to each depth, and whether one ends there. */
  readonly #counts: number[] = [0];
  readonly #isWhole: boolean[] = [true];

  constructor(trie: VocabularyTrie) {
    this.#trie = trie;
  }

  alive(node: number, { mayExit }: StackState): void {
    const { depths, tokenStarts, tokens } = this.#trie;
    const depth = depths[node] ?? 0;
    const numBefore = this.#counts[depth - 1] ?? 0;
    this.#counts[depth] = numBefore + (mayExit ? 1 : 0);
    this.#isWhole[depth] = mayExit;
    const end = tokenStarts[node + 1] ?? 0;
    for (let i = tokenStarts[node] ?? 0; i < end; i++) put(this.tokens, numBefore + 1, tokens[i] ?? 0);
  }

  dead(node: number): void {
    const depth = (this.#trie.depths[node] ?? 1) - 1;
    if (this.#isWhole[depth] === true) put(this.leaving, this.#counts[depth] ?? 0, node);
  }
}

function put(lists: number[][], at: number, value: number): void {
  while (lists.length <= at) lists.push([]);
  lists[at]?.push(value);
}
