/** Makes the terms of a thread, each once. */
import { type ByteSet, countBytes } from "./byte-set.ts";
import type { DispatchMachine, Rule, Term } from "./term.ts";

/** More bytes in one place count as many. */
const NARROW_BYTES = 48;

export class TermStore {
  readonly nothing: Term;
  readonly empty: Term;
  #terms = new Map<string, Term>();
  #rules = new Map<string, readonly Rule[]>();
  #characters = new Set<Term>();
  #nextId = 0;
  #nextRule = 0;

  constructor() {
    const facts = { isWide: false, endsNarrow: true, length: 0, edges: undefined };
    this.nothing = this.#intern("nothing", () => ({
      ...facts,
      id: this.#nextId++,
      kind: "nothing",
      isNullable: false,
    }));
    this.empty = this.#intern("empty", () => ({ ...facts, id: this.#nextId++, kind: "empty", isNullable: true }));
  }

  get size(): number {
    return this.#terms.size;
  }

  bytes(set: ByteSet): Term {
    const count = countBytes(set);
    if (count === 0) return this.nothing;
    const isWide = count > NARROW_BYTES;
    return this.#intern(`b${set.join()}`, () => ({
      id: this.#nextId++,
      edges: undefined,
      kind: "bytes",
      set,
      isNullable: false,
      isWide,
      endsNarrow: !isWide,
      length: 1,
    }));
  }

  /** One character of some, each given as its bytes in UTF-8: none of them begins with another. */
  character(characters: readonly Term[]): Term {
    const term = this.choice(characters);
    if (term !== this.nothing) this.#characters.add(term);
    return term;
  }

  isCharacter(term: Term): boolean {
    return this.#characters.has(term);
  }

  concat(first: Term, rest: Term): Term {
    if (first === this.nothing || rest === this.nothing) return this.nothing;
    if (first === this.empty) return rest;
    if (rest === this.empty) return first;
    if (first.kind !== "concat") return this.#concat(first, rest);
    const parts: Term[] = [];
    let each: Term = first;
    for (; each.kind === "concat"; each = each.rest) parts.push(each.first);
    parts.push(each);
    return parts.reduceRight((behind, part) => this.#concat(part, behind), rest);
  }

  sequence(parts: readonly Term[]): Term {
    return parts.reduceRight((behind, part) => this.concat(part, behind), this.empty);
  }

  #concat(first: Term, rest: Term): Term {
    return this.#intern(`c${first.id},${rest.id}`, () => ({
      id: this.#nextId++,
      edges: undefined,
      kind: "concat",
      first,
      rest,
      isNullable: first.isNullable && rest.isNullable,
      isWide: first.isWide || rest.isWide,
      endsNarrow: rest.endsNarrow && (!rest.isNullable || first.endsNarrow),
      length: first.length + rest.length,
    }));
  }

  choice(terms: readonly Term[]): Term {
    const flat = terms.flatMap((term) => (term.kind === "choice" ? term.options : [term]));
    const options = [...new Set(flat)].filter((term) => term !== this.nothing).sort((a, b) => a.id - b.id);
    const [only] = options;
    if (only === undefined) return this.nothing;
    if (options.length === 1) return only;
    return this.#intern(`o${options.map(({ id }) => id).join()}`, () => ({
      id: this.#nextId++,
      edges: undefined,
      kind: "choice",
      options,
      isNullable: options.some(({ isNullable }) => isNullable),
      isWide: options.some(({ isWide }) => isWide),
      endsNarrow: options.every(({ endsNarrow }) => endsNarrow),
      length: 1,
    }));
  }

  repeat(part: Term, min: number, max: number): Term {
    if (max === 0 || part === this.empty) return this.empty;
    if (part === this.nothing) return min === 0 ? this.empty : this.nothing;
    if (min === 1 && max === 1) return part;
    return this.#intern(`r${part.id},${min},${max}`, () => ({
      id: this.#nextId++,
      edges: undefined,
      kind: "repeat",
      part,
      min,
      max,
      isNullable: min === 0 || part.isNullable,
      isWide: part.isWide,
      endsNarrow: part.endsNarrow,
      length: 1,
    }));
  }

  call(rule: Rule): Term {
    return this.#intern(`f${rule.id}`, () => ({
      id: this.#nextId++,
      edges: undefined,
      kind: "call",
      rule,
      isNullable: rule.isNullable,
      isWide: false,
      endsNarrow: true,
      length: 1,
    }));
  }

  /** Free text in a state of its machine. */
  dispatch(machine: DispatchMachine, state: number): Term {
    return this.#intern(`d${machine.key},${state}`, () => ({
      id: this.#nextId++,
      edges: undefined,
      kind: "dispatch",
      machine,
      state,
      isNullable: machine.mayEndAnywhere,
      isWide: true,
      endsNarrow: !machine.mayEndAnywhere,
      length: 1,
    }));
  }

  /**
   * Rules that call each other, the same ones for the same key. `complete` gives their bodies when they are new.
   * @param areNullable whether each matches the empty text
   */
  rules(key: string, areNullable: readonly boolean[], complete: (rules: readonly Rule[]) => void): readonly Rule[] {
    const known = this.#rules.get(key);
    if (known !== undefined) return known;
    const rules = areNullable.map((isNullable): Rule => ({ id: this.#nextRule++, isNullable, body: undefined }));
    complete(rules);
    this.#rules.set(key, rules);
    return rules;
  }

  /** A rule with this body. */
  ruleOf(body: Term): Rule {
    const [rule] = this.rules(`body ${body.id}`, [body.isNullable], ([each]) => {
      if (each !== undefined) each.body = body;
    });
    if (rule === undefined) throw new Error("a rule was not made");
    return rule;
  }

  /** Drops every term that is no part of `roots`. */
  sweep(roots: readonly Term[]): void {
    const kept = new Set([this.nothing, this.empty, ...roots]);
    for (const term of kept) for (const part of partsOf(term)) kept.add(part);
    this.#terms = new Map([...this.#terms].filter(([, term]) => kept.has(term)));
    this.#characters = new Set([...this.#characters].filter((term) => kept.has(term)));
    this.#rules = new Map([...this.#rules].filter(([, rules]) => rules.some(({ body }) => body && kept.has(body))));
    for (const term of kept) term.edges = undefined;
  }

  /** Most terms are known: nothing is made before that is sure. */
  #intern(key: string, make: () => Term): Term {
    const known = this.#terms.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.#terms.set(key, made);
    return made;
  }
}

function partsOf(term: Term): readonly Term[] {
  switch (term.kind) {
    case "concat":
      return [term.first, term.rest];
    case "choice":
      return term.options;
    case "repeat":
      return [term.part];
    case "call":
      return term.rule.body === undefined ? [] : [term.rule.body];
    case "dispatch":
      return term.machine.states.flatMap(({ trigger }) => trigger?.following ?? []);
    default:
      return [];
  }
}
