import assert from "node:assert/strict";
import { test } from "node:test";
import { SequenceStates } from "./sequence-states.ts";

test("a sequence keeps its state until it ends, and one that never began has none", () => {
  const states = new SequenceStates(1000);
  assert.equal(states.enter(1n, false, 0), undefined);
  const state = states.enter(1n, true, 0);
  assert.equal(states.enter(1n, false, 10), state);
  const other = { replaced: true };
  states.replace(1n, other);
  assert.equal(states.enter(1n, false, 20), other);
  assert.notEqual(states.enter(1n, true, 30), other);
  states.leave(1n);
  assert.equal(states.enter(1n, false, 40), undefined);
});

test("sequences without a request for long are forgotten, those in use are not", () => {
  const states = new SequenceStates(1000);
  for (const id of ["a", "b", "c"]) states.enter(id, true, 0);
  states.enter("a", false, 900);
  states.enter("d", true, 1000);
  assert.equal(states.size, 2);
  assert.notEqual(states.enter("a", false, 1001), undefined);
  assert.equal(states.enter("b", false, 1001), undefined);
});
