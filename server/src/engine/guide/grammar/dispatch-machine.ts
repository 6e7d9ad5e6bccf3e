/**
 * Finds the triggers and stop texts in free text: an automaton whose states are the prefixes of them that the text so far
 * ends with. Source: Aho, Corasick, "Efficient string matching" (1975).
 */
import type { DispatchMachine, DispatchState, Trigger } from "./term.ts";

interface Node {
  readonly children: Map<number, number>;
  trigger: Trigger | undefined;
  fail: number;
}

/** States are numbered in 16 bits. */
const MAX_STATES = 65_536;

/** @throws Error when the triggers are too long */
export function dispatchMachine(triggers: readonly Trigger[], mayEndAnywhere: boolean): DispatchMachine {
  const nodes: Node[] = [{ children: new Map(), trigger: undefined, fail: 0 }];
  for (const trigger of triggers) addTrigger(nodes, trigger);
  if (nodes.length > MAX_STATES) throw new Error(`triggers have more than ${MAX_STATES} characters`);
  const keys = triggers.map(({ bytes, following, goesOn }) => `${bytes.join(".")}>${following.id}${goesOn ? "*" : ""}`);
  return { key: `${mayEndAnywhere};${keys.join()}`, mayEndAnywhere, states: complete(nodes) };
}

function addTrigger(nodes: Node[], trigger: Trigger): void {
  let node = nodes[0];
  for (const byte of trigger.bytes) {
    const child = node?.children.get(byte) ?? nodes.length;
    if (child === nodes.length) nodes.push({ children: new Map(), trigger: undefined, fail: 0 });
    node?.children.set(byte, child);
    node = nodes[child];
  }
  if (node !== undefined) node.trigger ??= trigger;
}

/** Breadth first: each state takes what its own bytes lack from the longest suffix that is a state too. */
function complete(nodes: readonly Node[]): readonly DispatchState[] {
  const states: DispatchState[] = nodes.map(({ trigger }) => ({ next: new Uint16Array(256), trigger }));
  const queue = [0];
  for (const at of queue) {
    const node = nodes[at];
    const state = states[at];
    if (node === undefined || state === undefined) continue;
    const suffix = at === 0 ? undefined : states[node.fail];
    state.next.set(suffix?.next ?? []);
    for (const [byte, child] of node.children) {
      setFail(nodes[child], suffix?.next[byte] ?? 0);
      state.next[byte] = child;
      queue.push(child);
    }
    states[at] = { ...state, trigger: state.trigger ?? suffix?.trigger };
  }
  return states;
}

function setFail(node: Node | undefined, fail: number): void {
  if (node !== undefined) node.fail = fail;
}
