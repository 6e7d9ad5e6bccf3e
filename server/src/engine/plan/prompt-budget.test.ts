import assert from "node:assert/strict";
import { test } from "node:test";
import { promptBudget } from "./prompt-budget.ts";

const queued = (...tokens: readonly number[]): { readonly numToCompute: number }[] =>
  tokens.map((numToCompute) => ({ numToCompute }));

test("promptBudget() leaves a step to prompts where nobody decodes", () => {
  assert.equal(promptBudget(8192, queued(500), queued(9000)), 8192);
});

test("promptBudget() keeps a place for each sequence that decodes, and one token for prompts", () => {
  assert.equal(promptBudget(512, queued(1, 1, 300), []), 510);
  assert.equal(promptBudget(2, queued(1, 1, 1), []), 1);
});

test("promptBudget() limits what others wait for while they decode", () => {
  assert.equal(promptBudget(8192, queued(1), queued(600, 4000)), 2048);
});

test("promptBudget() takes a quarter of a long queue, up to the step", () => {
  assert.equal(promptBudget(8192, queued(1), queued(10_001, 2000)), 3001);
  assert.equal(promptBudget(8192, queued(1, 1), queued(131_072)), 8190);
});
