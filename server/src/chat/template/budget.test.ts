import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_RENDERED_CHARS, MAX_TEMPLATE_DEPTH, MAX_TEMPLATE_STEPS } from "../../core/limits.ts";
import { Budget } from "./budget.ts";

test("a rendering has so many steps, and not one more", () => {
  const budget = new Budget();
  budget.spend(MAX_TEMPLATE_STEPS);
  assert.throws(() => budget.spend(), /more than 2000000 steps/);
});

test("a text has so many characters, and not one more", () => {
  new Budget().chars(MAX_RENDERED_CHARS);
  assert.throws(() => new Budget().chars(MAX_RENDERED_CHARS + 1), /text of more than 8388608 characters/);
});

test("macros nest so deep, and not deeper", () => {
  const budget = new Budget();
  const nest = (depth: number): number => (depth === 0 ? 0 : budget.nested(() => nest(depth - 1)));
  assert.equal(nest(MAX_TEMPLATE_DEPTH), 0);
  assert.throws(() => nest(MAX_TEMPLATE_DEPTH + 1), /more than 64 deep/);
});
