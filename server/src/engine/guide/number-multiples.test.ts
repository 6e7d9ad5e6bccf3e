import assert from "node:assert/strict";
import { test } from "node:test";
import { isMultiple, numberMultiples } from "./number-multiples.ts";
import type { NumberBounds } from "./number-range.ts";

type Case = readonly [bounds: NumberBounds, step: number, isInteger: boolean, good: string[], bad: string[]];

const CASES: readonly Case[] = [
  [{ minimum: 1.25, maximum: 9.75 }, 0.5, false, ["1.5", "2", "9.5"], ["1", "1.25", "10", "3.395665"]],
  [{ minimum: -0.3, exclusiveMaximum: 0.3 }, 0.1, false, ["-0.3", "0", "0.2"], ["0.3", "-0.4", "0.15"]],
  [{ exclusiveMinimum: 0, maximum: 100 }, 5, true, ["5", "100", "35"], ["0", "7", "105"]],
  [{ minimum: 0, maximum: 3 }, 0.75, true, ["0", "3"], ["0.75", "1"]],
  [{ minimum: 0 }, 0.01, false, ["0", "12.34", "99999.5"], ["0.001", "-1"]],
  [{}, 1, false, ["12", "-7"], ["1.5"]],
  [{ minimum: 1e6, maximum: 1_000_000.5 }, 0.25, false, ["1000000", "1000000.25"], ["1000000.3"]],
];

for (const [bounds, step, isInteger, good, bad] of CASES) {
  test(`multiples of ${step} within ${JSON.stringify(bounds)}`, () => {
    const ebnf = numberMultiples(bounds, step, isInteger) ?? "";
    const expression = new RegExp(`^${ebnf.replaceAll(/[" ]/g, "").replaceAll(/(?<!\[\d-?)\./g, "\\.")}$`);
    for (const text of good) assert.match(text, expression);
    for (const text of bad) assert.doesNotMatch(text, expression);
  });
}

test("steps without a form, and bounds without a multiple, give nothing", () => {
  assert.equal(numberMultiples({}, 7, true), undefined);
  assert.equal(numberMultiples({ minimum: 0, maximum: 1e6 }, 0.3, false), undefined);
  assert.equal(numberMultiples({ minimum: 1, maximum: 2 }, 0, false), undefined);
  assert.equal(numberMultiples({ minimum: 1, maximum: 2 }, 5, false), undefined);
});

test("isMultiple() goes by decimals", () => {
  assert.deepEqual([isMultiple(0.3, 0.1), isMultiple(0.35, 0.1), isMultiple(-20, 5)], [true, false, true]);
});
