import assert from "node:assert/strict";
import { test } from "node:test";
import { Turns } from "./turns.ts";

test("next() lets others run, and begins a turn that is not over", async () => {
  const order: string[] = [];
  setImmediate(() => order.push("other"));
  const turns = new Turns(0);
  assert.equal(turns.isOver, true);
  await turns.next();
  order.push("work");
  assert.deepEqual(order, ["other", "work"]);
  const long = new Turns(120_000);
  await long.next();
  assert.equal(long.isOver, false);
});
