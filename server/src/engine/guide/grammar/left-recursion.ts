/**
 * Takes left recursion out of rules: a rule that begins with itself becomes what it may begin with otherwise, followed by
 * repetitions. Source: Arden's lemma (1961) on the left-linear equations of the rules, solved by elimination.
 */
import type { Rule, Term } from "./term.ts";
import type { TermStore } from "./term-store.ts";

/** Rules that begin with each other. More make terms too large. */
const MAX_RULES = 32;

/** A term as its alternatives by the rule that they begin with; `other` begins with none, and is not empty. */
interface LeftForm {
  /** By rule: what follows it. */
  readonly behind: ReadonlyMap<Rule, Term>;
  readonly other: Term;
}

/**
 * Bodies without left recursion among the rules.
 * @param bodies one for each rule
 */
export function withoutLeftRecursion(
  rules: readonly Rule[],
  bodies: readonly Term[],
  store: TermStore,
): readonly Term[] {
  const splitter = new Splitter(rules, store);
  if (!isLeftRecursive(rules, bodies, splitter)) return bodies;
  if (rules.length > MAX_RULES) throw new Error(`more than ${MAX_RULES} rules begin with each other`);
  const solved = solve(
    rules,
    bodies.map((body) => splitter.split(body)),
    store,
  );
  return solved.map((term, i) => (rules[i]?.isNullable === true ? store.choice([store.empty, term]) : term));
}

function isLeftRecursive(rules: readonly Rule[], bodies: readonly Term[], splitter: Splitter): boolean {
  const leads = new Map(rules.map((rule, i) => [rule, splitter.firstRules(bodies[i])] as const));
  return rules.some((rule) => {
    const reached = new Set(leads.get(rule));
    for (const each of reached) for (const next of leads.get(each) ?? []) reached.add(next);
    return reached.has(rule);
  });
}

/** Eliminates one rule after the other from the beginnings of those behind it, then puts the results back. */
function solve(rules: readonly Rule[], forms: readonly LeftForm[], store: TermStore): readonly Term[] {
  const solved: LeftForm[] = [];
  for (const [i, form] of forms.entries()) {
    let own = form;
    for (let j = 0; j < i; j++) own = substitute(own, rules[j], solved[j], store);
    solved.push(closed(own, rules[i], store));
  }
  for (let i = solved.length - 1; i >= 0; i--) {
    for (let j = i + 1; j < solved.length; j++) {
      const own = solved[i];
      if (own !== undefined) solved[i] = substitute(own, rules[j], solved[j], store);
    }
  }
  return solved.map(({ other }) => other);
}

/** A = A α | β is A = β α*. */
function closed({ behind, other }: LeftForm, rule: Rule | undefined, store: TermStore): LeftForm {
  const own = rule && behind.get(rule);
  if (own === undefined) return { behind, other };
  const loop = store.repeat(own, 0, Number.POSITIVE_INFINITY);
  const rest = [...behind].filter(([each]) => each !== rule);
  return {
    behind: new Map(rest.map(([each, term]) => [each, store.concat(term, loop)])),
    other: store.concat(other, loop),
  };
}

function substitute(form: LeftForm, rule: Rule | undefined, by: LeftForm | undefined, store: TermStore): LeftForm {
  const tail = rule && form.behind.get(rule);
  if (tail === undefined || by === undefined) return form;
  const behind = new Map([...form.behind].filter(([each]) => each !== rule));
  for (const [each, term] of by.behind) {
    behind.set(each, store.choice([behind.get(each) ?? store.nothing, store.concat(term, tail)]));
  }
  return { behind, other: store.choice([form.other, store.concat(by.other, tail)]) };
}

class Splitter {
  readonly #rules: ReadonlySet<Rule>;
  readonly #store: TermStore;

  constructor(rules: readonly Rule[], store: TermStore) {
    this.#rules = new Set(rules);
    this.#store = store;
  }

  /** Rules of the set that the term may begin with. */
  firstRules(term: Term | undefined): readonly Rule[] {
    switch (term?.kind) {
      case "call":
        return this.#rules.has(term.rule) ? [term.rule] : [];
      case "choice":
        return term.options.flatMap((option) => this.firstRules(option));
      case "repeat":
        return this.firstRules(term.part);
      case "concat":
        return [...this.firstRules(term.first), ...(term.first.isNullable ? this.firstRules(term.rest) : [])];
      default:
        return [];
    }
  }

  /** Without the empty text, which is added again where the rule has it. */
  split(term: Term): LeftForm {
    const { nothing, empty } = this.#store;
    if (this.firstRules(term).length === 0) return { behind: new Map(), other: this.#nonEmpty(term) };
    switch (term.kind) {
      case "call":
        return { behind: new Map([[term.rule, empty]]), other: nothing };
      case "choice":
        return this.#union(term.options.map((option) => this.split(option)));
      case "repeat": {
        const rest = this.#store.repeat(term.part, Math.max(0, term.min - 1), term.max - 1);
        return this.#followed(this.split(term.part), rest);
      }
      case "concat": {
        const first = this.#followed(this.split(term.first), term.rest);
        return term.first.isNullable ? this.#union([first, this.split(term.rest)]) : first;
      }
      default:
        return { behind: new Map(), other: term };
    }
  }

  #followed({ behind, other }: LeftForm, rest: Term): LeftForm {
    return {
      behind: new Map([...behind].map(([rule, term]) => [rule, this.#store.concat(term, rest)])),
      other: this.#store.concat(other, rest),
    };
  }

  #union(forms: readonly LeftForm[]): LeftForm {
    const behind = new Map<Rule, Term>();
    for (const form of forms) {
      for (const [rule, term] of form.behind) {
        behind.set(rule, this.#store.choice([behind.get(rule) ?? this.#store.nothing, term]));
      }
    }
    return { behind, other: this.#store.choice(forms.map(({ other }) => other)) };
  }

  /** The term without the empty text. */
  #nonEmpty(term: Term): Term {
    const store = this.#store;
    if (!term.isNullable) return term;
    switch (term.kind) {
      case "choice":
        return store.choice(term.options.map((option) => this.#nonEmpty(option)));
      case "concat":
        return store.choice([store.concat(this.#nonEmpty(term.first), term.rest), this.#nonEmpty(term.rest)]);
      case "repeat": {
        const rest = store.repeat(term.part, Math.max(0, term.min - 1), term.max - 1);
        return store.concat(this.#nonEmpty(term.part), rest);
      }
      case "call":
        return term.rule.body === undefined ? term : this.#nonEmpty(term.rule.body);
      case "empty":
        return store.nothing;
      default:
        return term; // free text
    }
  }
}
