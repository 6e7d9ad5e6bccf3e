/**
 * Makes one term of a grammar. Rules that take part in recursion are called. So are rules with wide parts that end with
 * few bytes, a text in quotes for one: their masks then serve every place and grammar. All others are copied.
 */
import { type Budget, charge } from "../budget.ts";
import { addRange, emptyBytes } from "./byte-set.ts";
import { components } from "./components.ts";
import { dispatchMachine } from "./dispatch-machine.ts";
import { withoutLeftRecursion } from "./left-recursion.ts";
import { type DispatchSyntax, namesIn, type Rules, type Syntax } from "./syntax.ts";
import type { Rule, Term, Trigger } from "./term.ts";
import type { TermStore } from "./term-store.ts";
import { utf8Sequences } from "./utf8-ranges.ts";

/** Longer rows of elements are not copied. */
const MAX_COPIED = 256;

/**
 * @param root the name of the rule that a text begins with
 * @param places what stands for the places of the text
 * @throws Error when a rule is missing; BudgetError
 */
export function compileGrammar(
  rules: Rules,
  root: string,
  places: readonly Term[],
  store: TermStore,
  budget: Budget,
): Term {
  return new GrammarCompiler(rules, places, store, budget).compile(root);
}

class GrammarCompiler {
  readonly #rules: Rules;
  readonly #places: readonly Term[];
  readonly #store: TermStore;
  readonly #budget: Budget;
  readonly #values = new Map<string, Term>();

  constructor(rules: Rules, places: readonly Term[], store: TermStore, budget: Budget) {
    this.#rules = rules;
    this.#places = places;
    this.#store = store;
    this.#budget = budget;
  }

  compile(root: string): Term {
    for (const names of components(root, (name) => namesIn(this.#syntaxOf(name)))) this.#compileTogether(names);
    const term = this.#values.get(root);
    if (term === undefined) throw new Error(`rule ${root} is missing`);
    return term;
  }

  #syntaxOf(name: string): Syntax {
    const syntax = this.#rules.get(name);
    if (syntax === undefined) throw new Error(`rule ${name} is missing`);
    return syntax;
  }

  #compileTogether(names: readonly string[]): void {
    const [only = ""] = names;
    const isRecursive = names.length > 1 || namesIn(this.#syntaxOf(only)).includes(only);
    if (isRecursive) this.#compileRecursive(names);
    else this.#values.set(only, this.#calledOrCopied(this.#termOf(this.#syntaxOf(only))));
  }

  #calledOrCopied(term: Term): Term {
    if (term.kind === "call") return term;
    const isCalled = (term.isWide && term.endsNarrow && !term.isNullable) || term.length > MAX_COPIED;
    return isCalled ? this.#store.call(this.#store.ruleOf(term)) : term;
  }

  /** Rules are the same for the same text, with their own names as numbers and others as what they stand for. */
  #compileRecursive(names: readonly string[]): void {
    const key = names.map((name) => this.#keyOf(this.#syntaxOf(name), names)).join(";");
    const nullable = this.#nullableAmong(names);
    const store = this.#store;
    const rules = store.rules(
      key,
      names.map((name) => nullable.has(name)),
      (made) => {
        this.#name(names, made);
        const bodies = names.map((name) => this.#termOf(this.#syntaxOf(name)));
        for (const [i, body] of withoutLeftRecursion(made, bodies, store).entries()) {
          const rule = made[i];
          if (rule !== undefined) rule.body = body;
        }
      },
    );
    this.#name(names, rules);
  }

  #name(names: readonly string[], rules: readonly Rule[]): void {
    for (const [i, name] of names.entries()) {
      const rule = rules[i];
      if (rule !== undefined) this.#values.set(name, this.#store.call(rule));
    }
  }

  #keyOf(syntax: Syntax, names: readonly string[]): string {
    return JSON.stringify(syntax, (key, value: unknown) => {
      if (value === Number.POSITIVE_INFINITY) return "infinite";
      if (key === "index" && typeof value === "number") return `=${this.#places[value]?.id}`;
      if (key !== "name" || typeof value !== "string") return value;
      const at = names.indexOf(value);
      return at >= 0 ? at : `=${this.#values.get(value)?.id}`;
    });
  }

  /** Members that match the empty text; what they call beside each other is compiled already. */
  #nullableAmong(names: readonly string[]): ReadonlySet<string> {
    const nullable = new Set<string>();
    for (let before = -1; nullable.size !== before; ) {
      before = nullable.size;
      for (const name of names) if (this.#isNullable(this.#syntaxOf(name), nullable)) nullable.add(name);
    }
    return nullable;
  }

  #isNullable(syntax: Syntax, nullable: ReadonlySet<string>): boolean {
    switch (syntax.kind) {
      case "text":
        return syntax.bytes.length === 0;
      case "class":
        return false;
      case "name":
        return nullable.has(syntax.name) || this.#values.get(syntax.name)?.isNullable === true;
      case "place":
        return this.#places[syntax.index]?.isNullable === true;
      case "sequence":
        return syntax.parts.every((part) => this.#isNullable(part, nullable));
      case "choice":
        return syntax.options.some((option) => this.#isNullable(option, nullable));
      case "repeat":
        return syntax.min === 0 || this.#isNullable(syntax.part, nullable);
      case "dispatch":
        return syntax.mayEndAnywhere;
    }
  }

  #termOf(syntax: Syntax): Term {
    const store = this.#store;
    charge(this.#budget, 10);
    switch (syntax.kind) {
      case "text":
        charge(this.#budget, syntax.bytes.length);
        return this.#text(syntax.bytes);
      case "class":
        return store.character([
          ...syntax.ranges.flatMap((range) => utf8Sequences(range)).map((each) => this.#bytes(each)),
          ...(syntax.texts ?? []).map((text) => this.#text(text)),
        ]);
      case "name":
        return this.#values.get(syntax.name) ?? store.nothing;
      case "place":
        return this.#places[syntax.index] ?? store.nothing;
      case "sequence": {
        const term = store.sequence(syntax.parts.map((part) => this.#termOf(part)));
        charge(this.#budget, term.length);
        return term;
      }
      case "choice":
        return store.choice(syntax.options.map((option) => this.#termOf(option)));
      case "repeat":
        return store.repeat(this.#termOf(syntax.part), syntax.min, syntax.max);
      case "dispatch":
        return this.#dispatch(syntax);
    }
  }

  #text(bytes: readonly number[]): Term {
    return this.#bytes(bytes.map((byte) => [byte, byte] as const));
  }

  #bytes(ranges: readonly (readonly [number, number])[]): Term {
    const store = this.#store;
    return store.sequence(ranges.map(([first, last]) => store.bytes(addRange(emptyBytes(), first, last))));
  }

  /** Behind a tag comes free text again, or a stop text, or nothing. */
  #dispatch({ tags, stops, mayEndAnywhere, loops }: DispatchSyntax): Term {
    const store = this.#store;
    charge(this.#budget, 256 * [...tags.map(({ trigger }) => trigger), ...stops].flat().length);
    const end = stops.length === 0 ? store.empty : store.choice(stops.map((stop) => this.#text(stop)));
    const triggers: Trigger[] = tags.map(({ trigger, name }) => {
      const inner = this.#values.get(name) ?? store.nothing;
      return { bytes: trigger, following: loops ? inner : store.concat(inner, end), goesOn: loops };
    });
    const stopTriggers = stops.map((stop): Trigger => ({ bytes: stop, following: store.empty, goesOn: false }));
    return store.dispatch(dispatchMachine([...triggers, ...stopTriggers], mayEndAnywhere), 0);
  }
}
