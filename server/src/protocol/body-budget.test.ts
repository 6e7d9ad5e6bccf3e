import assert from "node:assert/strict";
import { test } from "node:test";
import { BodyBudget, bodyBudgetBytes } from "./body-budget.ts";

const GIB = 2 ** 30;

test("`take()` refuses what does not fit and takes it once there is room", () => {
  const budget = new BodyBudget(100);
  assert.deepEqual([budget.take(60), budget.take(41), budget.take(40), budget.take(1)], [true, false, true, false]);
  budget.give(60);
  assert.deepEqual([budget.take(61), budget.take(60)], [false, true]);
});

const CASES: readonly [machineBytes: number, limitBytes: number | undefined, expected: number][] = [
  [16 * GIB, undefined, 8 * GIB],
  [16 * GIB, 0, 8 * GIB],
  [16 * GIB, 2 ** 64, 8 * GIB],
  [16 * GIB, 4 * GIB, 2 * GIB],
  [16 * GIB, GIB / 8, GIB / 4],
];
for (const [machineBytes, limitBytes, expected] of CASES) {
  test(`bodyBudgetBytes() of ${machineBytes} bytes and a limit of ${limitBytes} is ${expected}`, () => {
    assert.equal(bodyBudgetBytes(machineBytes, limitBytes), expected);
  });
}
