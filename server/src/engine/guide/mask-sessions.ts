/**
 * The sessions of one mask thread: grammars become terms, and tokens move the states on. All of them share what is known
 * of terms, states and masks. All that no session needs is dropped once it is too much.
 */
import { type Budget, BudgetError } from "./budget.ts";
import type { ForcedRun } from "./forced-run.ts";
import { compileGrammar } from "./grammar/compile-grammar.ts";
import { withEscapes } from "./grammar/json-strings.ts";
import { parseEbnf } from "./grammar/parse-ebnf.ts";
import type { Term } from "./grammar/term.ts";
import { TermStore } from "./grammar/term-store.ts";
import type { GrammarSource } from "./grammar-source.ts";
import type { GuideVocabulary } from "./guide-vocabulary.ts";
import { hiddenTokens } from "./hidden-tokens.ts";
import { CLOSE_STEP, type MaskFailure, type MaskThreadData, type OpenSession } from "./mask-messages.ts";
import { GuideMatcher } from "./matcher/guide-matcher.ts";
import { MaskMaker } from "./matcher/mask-maker.ts";
import { StackAutomaton } from "./matcher/stack-automaton.ts";

/** A quarter of a second for a guide with its first mask, and a tenth of a second for a mask. */
const OPEN_BUDGET = 20_000_000;
const MASK_BUDGET = 8_000_000;
/** For a forced run, without which the text goes on as well. */
const FORCED_BUDGET = 2_000_000;
/** Terms and states that are kept; each has about 400 bytes. */
const MAX_KEPT = 300_000;
const MAX_COMPILED = 256;

interface Session {
  readonly matcher: GuideMatcher;
  readonly term: Term;
  readonly mask: Int32Array;
  readonly forced: ForcedRun | undefined;
}

type Limits = Pick<MaskThreadData, "vocabSize" | "current">;

export class MaskSessions {
  readonly #vocabulary: GuideVocabulary;
  readonly #current: Int32Array;
  readonly #terms = new TermStore();
  readonly #automaton: StackAutomaton;
  readonly #masks: MaskMaker;
  readonly #sessions = new Map<number, Session>();
  /** By source; least recently used first. */
  readonly #compiled = new Map<string, Term>();
  #maxKept = MAX_KEPT;

  constructor(vocabulary: GuideVocabulary, { vocabSize, current }: Limits) {
    this.#vocabulary = vocabulary;
    this.#current = current;
    this.#automaton = new StackAutomaton(this.#terms);
    this.#masks = new MaskMaker(vocabulary.trie, vocabSize, this.#terms, this.#automaton);
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
    const last = new Map<number, number>();
    for (let i = 0; i < steps.length; i += 2) last.set(steps[i] ?? 0, i);
    for (let i = 0; i < steps.length; i += 2) {
      const [session = 0, code = CLOSE_STEP] = steps.subarray(i, i + 2);
      // Nobody reads the masks between the tokens of a forced run.
      this.#guard(session, MASK_BUDGET, failures, () => this.#step(session, code, last.get(session) === i));
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
      const isBudget = isTooMuch(error);
      failures.push({ session, cause: isBudget ? "budget" : "error", message, ms: performance.now() - startMs });
    }
  }

  #open({ session, grammar, source, endIds, tokens, mask, forced }: OpenSession): void {
    const term = this.#termOf(source);
    const { tokens: tokenBytes, trie } = this.#vocabulary;
    const parts = { automaton: this.#automaton, masks: this.#masks, tokens: tokenBytes, trie };
    const start = this.#automaton.push(term, this.#automaton.end);
    const matcher = new GuideMatcher(parts, start, endIds, hiddenTokens(grammar, this.#vocabulary.specials));
    for (const token of tokens) accept(matcher, token);
    matcher.writeMask(mask);
    this.#writeForced(matcher, forced);
    this.#sessions.set(session, { matcher, term, mask, forced });
  }

  /** Leaves the run out where it takes too much work. */
  #writeForced(matcher: GuideMatcher, forced: ForcedRun | undefined): void {
    if (forced === undefined) return;
    this.#automaton.budget = { left: FORCED_BUDGET };
    try {
      matcher.writeForced(forced);
    } catch (error) {
      if (!isTooMuch(error)) throw error;
      forced.tokens[0] = 0;
    }
  }

  /** Requests often come with the same guide. */
  #termOf(source: GrammarSource): Term {
    const key = JSON.stringify(source);
    const term = this.#compiled.get(key) ?? this.#compile(source, this.#automaton.budget);
    this.#compiled.delete(key);
    this.#compiled.set(key, term);
    const [oldest] = this.#compiled.keys();
    if (this.#compiled.size > MAX_COMPILED && oldest !== undefined) this.#compiled.delete(oldest);
    return term;
  }

  #compile({ ebnf, isPrinted, isSchema, root, schemas, placeMark }: GrammarSource, budget: Budget): Term {
    const store = this.#terms;
    const places = schemas.map((schema) => {
      const term = compileGrammar(withEscapes(parseEbnf(schema, { isPrinted: false })), "root", [], store, budget);
      return term.kind === "call" ? term : store.call(store.ruleOf(term));
    });
    const read = parseEbnf(ebnf, { isPrinted, place: new RegExp(`${placeMark}(\\d+)${placeMark}`) });
    const rules = isSchema ? withEscapes(read) : read;
    return compileGrammar(rules, root ?? [...rules.keys()].at(-1) ?? "root", places, store, budget);
  }

  #step(session: number, code: number, isLast: boolean): void {
    if (code === CLOSE_STEP) {
      this.#sessions.delete(session);
      return;
    }
    const own = this.#sessions.get(session);
    if (own === undefined) return; // it has failed before
    if (code < 0) own.matcher.rollback(-1 - code);
    else accept(own.matcher, code);
    if (!isLast) return;
    own.matcher.writeMask(own.mask);
    this.#writeForced(own.matcher, own.forced);
  }

  #sweep(): void {
    if (this.#terms.size + this.#automaton.size <= this.#maxKept) return;
    this.#compiled.clear();
    const sessions = [...this.#sessions.values()];
    const states = this.#automaton.sweep(sessions.flatMap(({ matcher }) => matcher.states));
    this.#masks.forget(states);
    const terms = [...states].flatMap(({ items }) => items.map(({ term }) => term));
    this.#terms.sweep([...terms, ...sessions.map(({ term }) => term)]);
    this.#maxKept = Math.max(MAX_KEPT, 2 * (this.#terms.size + this.#automaton.size));
  }
}

/** A stack overflow is a text with endless readings too. */
function isTooMuch(error: unknown): boolean {
  return error instanceof BudgetError || error instanceof RangeError;
}

function accept(matcher: GuideMatcher, token: number): void {
  if (!matcher.accept(token)) throw new Error(`token ${token} does not fit the guide`);
}
