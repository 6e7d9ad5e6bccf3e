import assert from "node:assert/strict";
import { test } from "node:test";
import { BodyBudget } from "./body-budget.ts";
import { HeldBytes } from "./held-bytes.ts";

test("a share that is released twice gives its bytes back once", () => {
  const budget = new BodyBudget(10);
  const [first, second] = [new HeldBytes(budget), new HeldBytes(budget)];
  first.hold(6);
  second.hold(4);
  assert.throws(() => second.hold(1), /hold the 10 bytes/);
  first.release();
  first.release();
  assert.equal(budget.take(6), true);
  assert.equal(budget.take(1), false);
});
