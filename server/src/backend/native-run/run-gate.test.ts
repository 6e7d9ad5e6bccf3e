import assert from "node:assert/strict";
import { test } from "node:test";
import { RunGate, runsInPool } from "./run-gate.ts";
import { TurnBudget } from "./turn-budget.ts";

test("runsInPool() leaves threads for files and host names", () => {
  const table: [string | undefined, number][] = [
    [undefined, 2],
    ["", 2],
    ["nonsense", 2],
    ["0", 2],
    ["1", 1],
    ["2", 1],
    ["8", 6],
  ];
  for (const [size, runs] of table) assert.equal(runsInPool(size), runs, size);
});

test("RunGate lets in as many as it has places, the others in their order", async () => {
  const gate = new RunGate(2);
  const entered: number[] = [];
  assert.equal(gate.enter(), undefined);
  assert.equal(gate.enter(), undefined);
  const third = gate.enter()?.then(() => entered.push(3));
  const fourth = gate.enter()?.then(() => entered.push(4));
  await Promise.resolve();
  assert.deepEqual(entered, []);
  gate.leave();
  await third;
  assert.deepEqual(entered, [3]);
  gate.leave();
  await fourth;
  assert.deepEqual(entered, [3, 4]);
  gate.leave();
  gate.leave();
  assert.equal(gate.enter(), undefined);
});

test("TurnBudget is spent within a turn and whole again in the next", async () => {
  const budget = new TurnBudget();
  budget.spend(999);
  assert.equal(budget.isLeft(), true);
  budget.spend(1);
  assert.equal(budget.isLeft(), false);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(budget.isLeft(), true);
});
