/** Masks of the tokens that a state allows, each made once as long as it is remembered. */
import type { Term } from "../grammar/term.ts";
import type { TermStore } from "../grammar/term-store.ts";
import { type OwnTokens, OwnTokensFinder } from "./own-tokens.ts";
import type { StackAutomaton } from "./stack-automaton.ts";
import type { StackItem, StackState } from "./stack-state.ts";
import { addMask, maskBytes, TokenCollector, type TokenMask } from "./token-mask.ts";
import { FittingTokens, TrieWalker } from "./trie-walk.ts";
import type { VocabularyTrie } from "./vocabulary-trie.ts";

/** Masks that are kept. */
const MAX_CACHE_BYTES = 128 * 1024 * 1024;
const ENTRY_BYTES = 100;

export class MaskMaker {
  readonly #trie: VocabularyTrie;
  readonly #vocabSize: number;
  readonly #walker: TrieWalker;
  readonly #finder: OwnTokensFinder;
  #own = new Map<Term, OwnTokens>();
  #masks = new Map<StackState, TokenMask>();
  #cacheBytes = 0;

  constructor(trie: VocabularyTrie, vocabSize: number, terms: TermStore, automaton: StackAutomaton) {
    this.#trie = trie;
    this.#vocabSize = vocabSize;
    this.#walker = new TrieWalker(automaton);
    this.#finder = new OwnTokensFinder(trie, vocabSize, terms, automaton);
  }

  /** Writes a bit for each token that may come next; whether the text may end is said by the state. */
  writeTokens(words: Int32Array, state: StackState): void {
    const mask = this.#maskOf(state);
    if ("words" in mask) words.set(mask.words);
    else {
      words.fill(0);
      addMask(words, mask);
    }
  }

  /** Keeps masks of these states alone. */
  forget(states: ReadonlySet<StackState>): void {
    this.#masks = new Map([...this.#masks].filter(([state]) => states.has(state)));
    this.#own = new Map();
    this.#finder.forget();
    this.#cacheBytes = [...this.#masks.values()].reduce((sum, mask) => sum + ENTRY_BYTES + maskBytes(mask), 0);
  }

  #maskOf(state: StackState): TokenMask {
    const known = this.#masks.get(state);
    if (known !== undefined) return known;
    const collector = new TokenCollector(this.#vocabSize);
    const mask = this.#make(state, collector);
    this.#count(ENTRY_BYTES + maskBytes(mask));
    this.#masks.set(state, mask);
    return mask;
  }

  #make(state: StackState, collector: TokenCollector): TokenMask {
    const owned = state.items.map((item) => ({ item, own: this.#ownTokens(item.term) }));
    const isOpen = owned.some(({ item, own }) => own.isOpen && item.below.items.length > 0);
    if (isOpen) this.#addFitting(this.#trie, state, collector);
    else for (const { item, own } of owned) this.#addItem(item, own, collector);
    return collector.finish();
  }

  #addItem({ term, below }: StackItem, { inside, suffixes }: OwnTokens, collector: TokenCollector): void {
    collector.addMask(inside);
    if (below.items.length === 0) return; // nothing may follow
    if (suffixes !== undefined) this.#addFitting(suffixes, below, collector);
    if (term.isNullable) collector.addMask(this.#maskOf(below));
  }

  #addFitting(trie: VocabularyTrie, state: StackState, collector: TokenCollector): void {
    this.#walker.walk({ trie, top: 0 }, state, new FittingTokens(trie, collector));
  }

  #ownTokens(term: Term): OwnTokens {
    const known = this.#own.get(term);
    if (known !== undefined) return known;
    const own = this.#finder.find(term);
    this.#count(own.numBytes);
    this.#own.set(term, own);
    return own;
  }

  /** Forgets everything once it takes too much. */
  #count(numBytes: number): void {
    this.#cacheBytes += numBytes;
    if (this.#cacheBytes <= MAX_CACHE_BYTES) return;
    this.#cacheBytes = 0;
    this.#own = new Map();
    this.#masks = new Map();
    this.#finder.forget();
  }
}
