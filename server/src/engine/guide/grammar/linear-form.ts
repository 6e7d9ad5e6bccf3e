/**
 * The first step of a term: which bytes it may begin with, and what is left to match behind them. Source: Antimirov,
 * "Partial derivatives of regular expressions and finite automaton constructions" (1996), linear forms.
 */
import { type Budget, charge } from "../budget.ts";
import { addRange, allBytes, emptyBytes } from "./byte-set.ts";
import type { DispatchMachine, Edge, Term } from "./term.ts";
import type { TermStore } from "./term-store.ts";

/** Work of making an edge, against that of looking at a node of a trie. */
const EDGE_COST = 400;

/** Kept with the term. Left recursion is gone when this is called. */
export function edgesOf(term: Term, store: TermStore, budget: Budget): readonly Edge[] {
  if (term.edges !== undefined) return term.edges;
  const edges = computeEdges(term, store, budget);
  charge(budget, EDGE_COST * edges.length);
  term.edges = edges;
  return edges;
}

function computeEdges(term: Term, store: TermStore, budget: Budget): readonly Edge[] {
  switch (term.kind) {
    case "nothing":
    case "empty":
      return [];
    case "bytes":
      return [{ bytes: term.set, frames: [store.empty] }];
    case "choice":
      return term.options.flatMap((option) => edgesOf(option, store, budget));
    case "concat": {
      const first = edgesOf(term.first, store, budget).map((edge) => followedBy(edge, term.rest, store));
      return term.first.isNullable ? [...first, ...edgesOf(term.rest, store, budget)] : first;
    }
    case "repeat": {
      const rest = store.repeat(term.part, Math.max(0, term.min - 1), term.max - 1);
      return edgesOf(term.part, store, budget).map((edge) => followedBy(edge, rest, store));
    }
    case "call": {
      if (term.rule.body === undefined) throw new Error("a rule has no body");
      return edgesOf(term.rule.body, store, budget).map(({ bytes, frames }) => ({
        bytes,
        frames: [...frames.filter((frame) => frame !== store.empty), store.empty],
      }));
    }
    case "dispatch":
      return dispatchEdges(term.machine, term.state, store);
  }
}

function followedBy({ bytes, frames }: Edge, rest: Term, store: TermStore): Edge {
  const last = frames.at(-1) ?? store.empty;
  return { bytes, frames: [...frames.slice(0, -1), store.concat(last, rest)] };
}

/** One edge for each state that a byte leads to. */
function dispatchEdges(machine: DispatchMachine, state: number, store: TermStore): readonly Edge[] {
  const next = machine.states[state]?.next;
  const rest = allBytes();
  const edges: Edge[] = [];
  for (let byte = 0; byte < 256; byte++) {
    const target = next?.[byte] ?? 0;
    if (target === 0) continue;
    const set = addRange(emptyBytes(), byte, byte);
    rest[byte >> 5] = (rest[byte >> 5] ?? 0) & ~(1 << (byte & 31));
    edges.push({ bytes: set, frames: [behind(machine, target, store)] });
  }
  edges.push({ bytes: rest, frames: [store.dispatch(machine, 0)] });
  return edges;
}

function behind(machine: DispatchMachine, state: number, store: TermStore): Term {
  const trigger = machine.states[state]?.trigger;
  if (trigger === undefined) return store.dispatch(machine, state);
  return trigger.goesOn ? store.concat(trigger.following, store.dispatch(machine, 0)) : trigger.following;
}
