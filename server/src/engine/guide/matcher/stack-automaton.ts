/** Makes the states of stack-state.ts and the transitions between them, as they are needed. */
import { type Budget, charge } from "../budget.ts";
import {
  addAll,
  allBytes,
  type ByteSet,
  bytesOf,
  countBytes,
  emptyBytes,
  hasByte,
  keepOnly,
  removeAll,
} from "../grammar/byte-set.ts";
import { edgesOf } from "../grammar/linear-form.ts";
import type { Term } from "../grammar/term.ts";
import type { TermStore } from "../grammar/term-store.ts";
import type { StackEdge, StackItem, StackState } from "./stack-state.ts";

/** States with more bytes get a table. */
const FEW_BYTES = 12;
/** Work of making a state, an item of it, and a transition, against that of looking at a node of a trie. */
const STATE_COST = 50;
const ITEM_COST = 80;
const STEP_COST = 400;

export class StackAutomaton {
  /** By id; swept ones are gone. */
  readonly states: (StackState | undefined)[] = [];
  /** No text fits. */
  readonly dead: StackState;
  /** The text is complete. */
  readonly end: StackState;
  /** A part of a text is complete. */
  readonly exit: StackState;
  readonly #terms: TermStore;
  #byItems = new Map<string, StackState>();
  #pushed = new Map<string, StackState>();
  #merged = new Map<string, StackState>();
  /** Work that the caller may still ask for. */
  budget: Budget = { left: Number.POSITIVE_INFINITY };

  constructor(terms: TermStore) {
    this.#terms = terms;
    this.dead = this.#intern([], false, false);
    this.end = this.#intern([], true, false);
    this.exit = this.#intern([], false, true);
  }

  /** Entries of all tables: what they take of memory grows with it. */
  get size(): number {
    return this.#byItems.size + this.#pushed.size + this.#merged.size;
  }

  /** The state in which `term` is to be matched, then what is below. */
  push(term: Term, below: StackState): StackState {
    if (term.kind === "empty") return below;
    if (term.kind === "nothing" || below === this.dead) return this.dead;
    const key = `${term.id},${below.id}`;
    const known = this.#pushed.get(key);
    if (known !== undefined) return known;
    const state = this.#push(term, below);
    this.#pushed.set(key, state);
    return state;
  }

  #push(term: Term, below: StackState): StackState {
    if (term.kind === "choice") return this.merge(term.options.map((option) => this.push(option, below)));
    if (term.kind === "concat" && term.first.kind === "call") return this.push(term.first, this.push(term.rest, below));
    return this.#intern([{ term, below }], false, false);
  }

  /** All stacks of all states. */
  merge(states: readonly StackState[]): StackState {
    const distinct = [...new Set(states)].filter((state) => state !== this.dead);
    const [only] = distinct;
    if (only === undefined) return this.dead;
    if (distinct.length === 1) return only;
    const key = distinct
      .map(({ id }) => id)
      .sort((a, b) => a - b)
      .join();
    const known = this.#merged.get(key);
    if (known !== undefined) return known;
    const merged = this.#merge(distinct);
    this.#merged.set(key, merged);
    return merged;
  }

  #merge(states: readonly StackState[]): StackState {
    const belows = new Map<Term, StackState[]>();
    for (const { items } of states) {
      for (const { term, below } of items) {
        const same = belows.get(term);
        if (same === undefined) belows.set(term, [below]);
        else same.push(below);
      }
    }
    charge(this.budget, ITEM_COST * belows.size);
    const items = [...belows].map(([term, each]): StackItem => ({ term, below: this.merge(each) }));
    items.sort((a, b) => a.term.id - b.term.id);
    return this.#intern(
      items,
      states.some(({ isEnd }) => isEnd),
      states.some(({ isExit }) => isExit),
    );
  }

  /** The state behind a byte; `dead` when it does not fit. */
  step(state: StackState, byte: number): StackState {
    if (!hasByte(state.first ?? this.#expand(state), byte)) return this.dead;
    const { few, table } = state;
    const known = few === undefined ? this.states[table?.[byte] ?? -1] : few.get(byte);
    if (known !== undefined) return known;
    return this.#fill(state, byte);
  }

  /** Bytes that may come next. */
  firstBytes(state: StackState): ByteSet {
    return state.first ?? this.#expand(state);
  }

  #expand(state: StackState): ByteSet {
    const first = emptyBytes();
    for (const { bytes } of this.#edges(state)) addAll(first, bytes);
    if (countBytes(first) > FEW_BYTES) state.table = new Int32Array(256).fill(-1);
    else state.few = new Map();
    state.first = first;
    return first;
  }

  /** Edges of all tops, those below tops that may be empty included. Ambiguous texts reach the same stack in many ways. */
  #edges(state: StackState): readonly StackEdge[] {
    if (state.edges !== undefined) return state.edges;
    const edges: StackEdge[] = [];
    const reached = new Set([state]);
    for (const { items } of reached) {
      for (const { term, below } of items) {
        for (const { bytes, frames } of edgesOf(term, this.#terms, this.budget)) edges.push({ bytes, frames, below });
        if (term.isNullable) reached.add(below);
      }
    }
    charge(this.budget, ITEM_COST * edges.length);
    state.edges = edges;
    return edges;
  }

  /** The same for all bytes that the same edges have. */
  #fill(state: StackState, byte: number): StackState {
    const same = allBytes();
    const targets: StackState[] = [];
    const edges = this.#edges(state);
    charge(this.budget, STATE_COST + edges.length);
    for (const { bytes, frames, below } of edges) {
      if (hasByte(bytes, byte)) {
        keepOnly(same, bytes);
        targets.push(frames.reduceRight((under, frame) => this.push(frame, under), below));
      } else removeAll(same, bytes);
    }
    charge(this.budget, STEP_COST * targets.length);
    const target = this.merge(targets);
    const { few, table } = state;
    for (const each of bytesOf(same)) {
      few?.set(each, target);
      if (table !== undefined) table[each] = target.id;
    }
    return target;
  }

  /** Drops every state that none of `roots` rests on, and all transitions. Gives the states that are left. */
  sweep(roots: readonly StackState[]): ReadonlySet<StackState> {
    const kept = new Set([this.dead, this.end, this.exit, ...roots]);
    for (const { items } of kept) for (const { below } of items) kept.add(below);
    this.#byItems = new Map([...this.#byItems].filter(([, state]) => kept.has(state)));
    this.#pushed = new Map();
    this.#merged = new Map();
    for (const state of this.states) if (state !== undefined && !kept.has(state)) this.states[state.id] = undefined;
    for (const state of kept) {
      state.edges = undefined;
      state.first = undefined;
      state.few = undefined;
      state.table = undefined;
    }
    return kept;
  }

  #intern(items: readonly StackItem[], isEnd: boolean, isExit: boolean): StackState {
    const key = `${isEnd ? 1 : 0}${isExit ? 1 : 0}${items.map(({ term, below }) => `${term.id}:${below.id}`).join()}`;
    const known = this.#byItems.get(key);
    if (known !== undefined) return known;
    charge(this.budget, STATE_COST + ITEM_COST * items.length);
    const state: StackState = {
      id: this.states.length,
      items,
      isEnd,
      isExit,
      mayEnd: isEnd || items.some(({ term, below }) => term.isNullable && below.mayEnd),
      mayExit: isExit || items.some(({ term, below }) => term.isNullable && below.mayExit),
      edges: undefined,
      first: undefined,
      few: undefined,
      table: undefined,
    };
    this.states.push(state);
    this.#byItems.set(key, state);
    return state;
  }
}
