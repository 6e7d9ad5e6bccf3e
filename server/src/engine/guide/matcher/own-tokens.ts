/**
 * Tokens that the term on top of a stack decides by itself, whatever is below. Source: Dong et al., "XGrammar" (arXiv
 * 2411.15100), section 3.1: context-independent and context-dependent tokens.
 */
import { charge } from "../budget.ts";
import { haveCommon } from "../grammar/byte-set.ts";
import type { Term } from "../grammar/term.ts";
import type { TermStore } from "../grammar/term-store.ts";
import { type CharacterRuns, characterRuns } from "./character-runs.ts";
import type { StackAutomaton } from "./stack-automaton.ts";
import { maskBytes, TokenCollector, type TokenMask } from "./token-mask.ts";
import { FittingTokens, TrieWalker } from "./trie-walk.ts";
import { suffixTrie, type VocabularyTrie } from "./vocabulary-trie.ts";

/** With more tokens behind the ends of a term it is quicker to walk the whole vocabulary for each stack. */
const MAX_SUFFIXES = 60_000;
/** Memory of a node of a trie, and of an entry beside its tokens. */
const NODE_BYTES = 15;
const ENTRY_BYTES = 200;

export interface OwnTokens {
  /** Allowed as long as anything may be below. */
  readonly inside: TokenMask;
  /** Tokens that go beyond the end of the term, by what they have there; undefined: none does. */
  readonly suffixes: VocabularyTrie | undefined;
  /** More tokens go beyond it than are listed. */
  readonly isOpen: boolean;
  readonly numBytes: number;
}

/** A term that begins with characters of one class. */
interface Run {
  readonly character: Term;
  readonly min: number;
  readonly max: number;
  readonly rest: Term;
}

export class OwnTokensFinder {
  readonly #trie: VocabularyTrie;
  readonly #vocabSize: number;
  readonly #terms: TermStore;
  readonly #automaton: StackAutomaton;
  readonly #walker: TrieWalker;
  readonly #collector: TokenCollector;
  #runs = new Map<Term, CharacterRuns>();

  constructor(trie: VocabularyTrie, vocabSize: number, terms: TermStore, automaton: StackAutomaton) {
    this.#trie = trie;
    this.#vocabSize = vocabSize;
    this.#terms = terms;
    this.#automaton = automaton;
    this.#walker = new TrieWalker(automaton);
    this.#collector = new TokenCollector(vocabSize);
  }

  /** Drops what is kept. */
  forget(): void {
    this.#runs = new Map();
  }

  find(term: Term): OwnTokens {
    const run = term.isWide ? this.#runOf(term) : undefined;
    if (run !== undefined) return this.#findInRun(run);
    const fitting = new FittingTokens(this.#trie, this.#collector);
    const start = this.#automaton.push(term, this.#automaton.exit);
    this.#walker.walk({ trie: this.#trie, top: 0 }, start, fitting);
    return this.#finish(fitting.exits);
  }

  /** Undefined: the characters are followed by something that may begin like them. */
  #runOf(term: Term): Run | undefined {
    const first = term.kind === "concat" ? term.first : term;
    const rest = term.kind === "concat" ? term.rest : this.#terms.empty;
    if (first.kind !== "repeat" || !this.#terms.isCharacter(first.part)) return undefined;
    const isAlone = rest === this.#terms.empty;
    if (!isAlone && (rest.isNullable || this.#haveCommonStart(first.part, rest))) return undefined;
    return { character: first.part, min: first.min, max: first.max, rest };
  }

  #haveCommonStart(one: Term, other: Term): boolean {
    const automaton = this.#automaton;
    const [a, b] = [one, other].map((term) => automaton.firstBytes(automaton.push(term, automaton.exit)));
    return a === undefined || b === undefined || haveCommon(a, b);
  }

  #findInRun({ character, min, max, rest }: Run): OwnTokens {
    const runs = this.#runsOf(character);
    const inside = runs.upTo[Math.min(max, runs.upTo.length - 1)];
    if (inside !== undefined) this.#collector.addMask(inside);
    if (rest === this.#terms.empty) return { ...this.#finish([]), isOpen: true };
    const start = this.#automaton.push(rest, this.#automaton.exit);
    const fitting = new FittingTokens(this.#trie, this.#collector);
    for (const [count, nodes] of runs.leaving.entries()) {
      if (count < min || count > max) continue;
      for (const top of nodes) this.#walker.walk({ trie: this.#trie, top }, start, fitting);
    }
    return this.#finish(fitting.exits);
  }

  #runsOf(character: Term): CharacterRuns {
    const known = this.#runs.get(character);
    if (known !== undefined) return known;
    const parts = { terms: this.#terms, automaton: this.#automaton, walker: this.#walker };
    const runs = characterRuns(character, this.#trie, this.#vocabSize, parts);
    this.#runs.set(character, runs);
    return runs;
  }

  #finish(exits: readonly number[]): OwnTokens {
    const inside = this.#collector.finish();
    const { ends, numNodes } = this.#trie;
    const numSuffixes = exits.reduce((sum, node) => sum + (ends[node] ?? numNodes) - node - 1, 0);
    charge(this.#automaton.budget, numSuffixes);
    const isOpen = numSuffixes > MAX_SUFFIXES;
    const suffixes = isOpen || numSuffixes === 0 ? undefined : suffixTrie(this.#trie, exits);
    const numBytes = ENTRY_BYTES + maskBytes(inside) + NODE_BYTES * (suffixes?.numNodes ?? 0);
    return { inside, suffixes, isOpen, numBytes };
  }
}
