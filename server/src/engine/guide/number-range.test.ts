import assert from "node:assert/strict";
import { test } from "node:test";
import { createRandom, type Random } from "../../../../tests/support/random.ts";
import { type NumberBounds, numberRange } from "./number-range.ts";

const ROUNDS = 2000;

/** EBNF of ranges is a regular expression but for blanks and quotes. */
function expressionOf(bounds: NumberBounds): RegExp | undefined {
  const range = numberRange(bounds);
  return range === undefined
    ? undefined
    : new RegExp(`^${range.replaceAll(/[" ]/g, "").replaceAll(/(?<!\[\d-?)\./g, "\\.")}$`);
}

function isWithin(value: number, { minimum, maximum, exclusiveMinimum, exclusiveMaximum }: NumberBounds): boolean {
  return (
    !(value < (minimum ?? value) || value > (maximum ?? value)) &&
    !(exclusiveMinimum !== undefined && value <= exclusiveMinimum) &&
    !(exclusiveMaximum !== undefined && value >= exclusiveMaximum)
  );
}

test("a range takes exactly the decimals between its bounds", () => {
  const random = createRandom(7);
  const decimal = (): number =>
    (random.below(2 * 10 ** random.below(6)) - 10 ** random.below(6)) / 10 ** random.below(5);
  let taken = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const [low = 0, high = 0] = [decimal(), decimal()].sort((a, b) => a - b);
    const bounds: NumberBounds = random.pick([
      { minimum: low, maximum: high },
      { exclusiveMinimum: low, maximum: high },
      { minimum: low, exclusiveMaximum: high },
      { minimum: low },
      { maximum: high },
    ]);
    const expression = expressionOf(bounds);
    const near = [low, high].flatMap((bound) => [bound, bound - 1e-4, bound + 1e-4, -bound, bound * 10, bound / 10]);
    for (const value of [...near, decimal(), Math.round(decimal()), (low + high) / 2]) {
      const text = value.toFixed(random.below(7)).replace(/^-(?=[0.]+$)/, "");
      const expected = isWithin(Number(text), bounds);
      assert.equal(expression?.test(text) ?? false, expected, `${text} in ${JSON.stringify(bounds)}`);
      taken += expected ? 1 : 0;
    }
  }
  assert.ok(taken > ROUNDS);
});

test("bounds of any size make a range, or none when nothing lies between them", () => {
  assert.ok(expressionOf({ minimum: 1e-7, maximum: 5e-7 })?.test("0.0000003"));
  assert.ok(expressionOf({ minimum: -1e300, maximum: 1e300 })?.test("-12.5"));
  assert.equal(expressionOf({ minimum: 1e-7, maximum: 5e-7 })?.test("0.0000006"), false);
  assert.ok(expressionOf({ minimum: -3 })?.test("-2.5"));
  assert.equal(expressionOf({ minimum: -3 })?.test("-"), false);
  assert.equal(numberRange({ minimum: 2, maximum: 1 }), undefined);
  assert.equal(numberRange({ exclusiveMinimum: 1, exclusiveMaximum: 1 }), undefined);
});

test("a range of integers has no fraction", () => {
  const random = createRandom(9);
  for (let round = 0; round < ROUNDS; round++) {
    const [minimum = 0, maximum = 0] = [whole(random), whole(random)].sort((a, b) => a - b);
    const expression = new RegExp(`^${(numberRange({ minimum, maximum }, true) ?? "").replaceAll(/[" ]/g, "")}$`);
    for (const value of [minimum, maximum, minimum - 1, maximum + 1, whole(random)]) {
      const expected = value >= minimum && value <= maximum;
      assert.equal(expression.test(String(value)), expected, `${value} in ${minimum} to ${maximum}`);
    }
    assert.equal(expression.test(`${minimum}.0`), false);
  }
});

function whole(random: Random): number {
  return random.below(2 * 10 ** random.below(7)) - 10 ** random.below(7);
}
