/**
 * The sessions of one mask thread: grammars become terms, and tokens move the states on. All of them share what is known
 * of terms, states and masks. All that no session needs is dropped once it is too much.
 */
import { type Budget, BudgetError } from "./budget.ts";
import { compileGrammar } from "./grammar/compile-grammar.ts";
import { parseEbnf } from "./grammar/parse-ebnf.ts";
import type { Term } from "./grammar/term.ts";
import { TermStore } from "./grammar/term-store.ts";
import type { GrammarSource } from "./grammar-source.ts";
import { hiddenTokens } from "./hidden-tokens.ts";
import { CLOSE_STEP, type MaskFailure, type MaskThreadData, type OpenSession } from "./mask-messages.ts";
import { GuideMatcher } from "./matcher/guide-matcher.ts";
import { MaskMaker } from "./matcher/mask-maker.ts";
import { StackAutomaton } from "./matcher/stack-automaton.ts";
import { vocabularyTrie } from "./matcher/vocabulary-trie.ts";
import { tokenBytes } from "./token-bytes.ts";
import type { Vocabulary } from "./tokenizer-vocabulary.ts";

/** A quarter of a second for a guide with its first mask, and a tenth of a second for a mask. */
const OPEN_BUDGET = 20_000_000;
const MASK_BUDGET = 8_000_000;
/** Terms and states that are kept; each has about 400 bytes. */
const MAX_KEPT = 300_000;

interface Session {
  readonly matcher: GuideMatcher;
  readonly term: Term;
  readonly mask: Int32Array;
}

type Limits = Pick<MaskThreadData, "vocabSize" | "current">;

export class MaskSessions {
  readonly #vocabulary: Vocabulary;
  readonly #tokenBytes: readonly Uint8Array[];
  readonly #current: Int32Array;
  readonly #terms = new TermStore();
  readonly #automaton: StackAutomaton;
  readonly #masks: MaskMaker;
  readonly #sessions = new Map<number, Session>();
  #maxKept = MAX_KEPT;

  constructor(vocabulary: Vocabulary, { vocabSize, current }: Limits) {
    this.#vocabulary = vocabulary;
    this.#current = current;
    this.#tokenBytes = tokenBytes(vocabulary, vocabSize);
    this.#automaton = new StackAutomaton(this.#terms);
    this.#masks = new MaskMaker(vocabularyTrie(this.#tokenBytes), vocabSize, this.#terms, this.#automaton);
  }

  /** Gives what went wrong; the session is not opened then. */
  open(opening: OpenSession): readonly MaskFailure[] {
    const failures: MaskFailure[] = [];
    this.#guard(opening.session, OPEN_BUDGET, failures, () => this.#open(opening));
    Atomics.store(this.#current, 0, 0);
    return failures;
  }

  /** Gives what went wrong; the sessions concerned are closed. */
  run(steps: Int32Array): readonly MaskFailure[] {
    const failures: MaskFailure[] = [];
    for (let i = 0; i < steps.length; i += 2) {
      const [session = 0, code = CLOSE_STEP] = steps.subarray(i, i + 2);
      this.#guard(session, MASK_BUDGET, failures, () => this.#step(session, code));
    }
    Atomics.store(this.#current, 0, 0);
    this.#sweep();
    return failures;
  }

  #guard(session: number, left: number, failures: MaskFailure[], work: () => void): void {
    const startMs = performance.now();
    Atomics.store(this.#current, 0, session);
    this.#automaton.budget = { left };
    try {
      work();
    } catch (error) {
      this.#sessions.delete(session);
      const message = error instanceof Error ? error.message : String(error);
      // A stack overflow is a text with endless readings too.
      const isBudget = error instanceof BudgetError || error instanceof RangeError;
      failures.push({ session, cause: isBudget ? "budget" : "error", message, ms: performance.now() - startMs });
    }
  }

  #open({ session, grammar, source, endIds, tokens, mask }: OpenSession): void {
    const term = this.#compile(source, this.#automaton.budget);
    const parts = { automaton: this.#automaton, masks: this.#masks, tokenBytes: this.#tokenBytes };
    const start = this.#automaton.push(term, this.#automaton.end);
    const matcher = new GuideMatcher(parts, start, endIds, hiddenTokens(grammar, this.#vocabulary.specials));
    for (const token of tokens) accept(matcher, token);
    matcher.writeMask(mask);
    this.#sessions.set(session, { matcher, term, mask });
  }

  #compile({ ebnf, isPrinted, root, schemas, placeMark }: GrammarSource, budget: Budget): Term {
    const store = this.#terms;
    const places = schemas.map((schema) => {
      const term = compileGrammar(parseEbnf(schema, { isPrinted: false }), "root", [], store, budget);
      return term.kind === "call" ? term : store.call(store.ruleOf(term));
    });
    const rules = parseEbnf(ebnf, { isPrinted, place: new RegExp(`${placeMark}(\\d+)${placeMark}`) });
    return compileGrammar(rules, root ?? [...rules.keys()].at(-1) ?? "root", places, store, budget);
  }

  #step(session: number, code: number): void {
    if (code === CLOSE_STEP) {
      this.#sessions.delete(session);
      return;
    }
    const own = this.#sessions.get(session);
    if (own === undefined) return; // it has failed before
    if (code < 0) own.matcher.rollback(-1 - code);
    else accept(own.matcher, code);
    own.matcher.writeMask(own.mask);
  }

  #sweep(): void {
    if (this.#terms.size + this.#automaton.size <= this.#maxKept) return;
    const sessions = [...this.#sessions.values()];
    const states = this.#automaton.sweep(sessions.flatMap(({ matcher }) => matcher.states));
    this.#masks.forget(states);
    const terms = [...states].flatMap(({ items }) => items.map(({ term }) => term));
    this.#terms.sweep([...terms, ...sessions.map(({ term }) => term)]);
    this.#maxKept = Math.max(MAX_KEPT, 2 * (this.#terms.size + this.#automaton.size));
  }
}

function accept(matcher: GuideMatcher, token: number): void {
  if (!matcher.accept(token)) throw new Error(`token ${token} does not fit the guide`);
}
