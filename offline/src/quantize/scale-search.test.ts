import assert from "node:assert/strict";
import { test } from "node:test";
import { groupScale, levelOf, roundingError } from "./group-rounding.ts";
import { searchScales } from "./scale-search.ts";

/** Reproducible numbers around zero. */
function noise(length: number, seed: number): Float32Array {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 30 - 1;
  });
}

test("groupScale() clips nothing without importance, and is a half", () => {
  assert.equal(groupScale(Float32Array.of(0.25, -1.75, 1), undefined), 0.25);
  assert.equal(groupScale(new Float32Array(4), undefined), 0);
});

test("groupScale() clips a weight whose input does not matter", () => {
  const values = Float32Array.of(7, 0.9, -0.9, 0.9);
  const importance = Float32Array.of(0, 1, 1, 1);
  const scale = groupScale(values, importance);
  assert.ok(scale < 1, `scale ${scale}`);
  assert.ok(roundingError(values, scale, importance) < roundingError(values, 1, importance));
});

test("levelOf() stays within four bits", () => {
  const cases = [
    [10, 1, 7],
    [-10, 1, -8],
    [2.4, 1, 2],
    [3, 0, 0],
  ] as const;
  for (const [value, scale, expected] of cases) assert.equal(levelOf(value, scale), expected);
});

const COLUMNS = 64;
const GROUP = 32;

function searchWith(meanAbs: Float32Array, sharedBy?: Int32Array) {
  return searchScales({
    matrices: [{ values: noise(COLUMNS * 16, 7) }],
    numColumns: COLUMNS,
    groupSize: GROUP,
    meanAbs,
    meanSquare: meanAbs.map((value) => value * value),
    sharedBy,
  });
}

test("searchScales() gives inputs that are large finer weights, and a smaller error", () => {
  const meanAbs = Float32Array.from({ length: COLUMNS }, (_, i) => (i === 5 ? 50 : 1));
  const { factors, error, plainError } = searchWith(meanAbs);
  assert.ok(error < plainError, `${error} of ${plainError}`);
  assert.ok((factors[5] ?? 0) > (factors[6] ?? 0));
});

test("searchScales() leaves equal inputs alone", () => {
  const { factors, error, plainError } = searchWith(new Float32Array(COLUMNS).fill(2));
  assert.deepEqual(factors, new Float32Array(COLUMNS).fill(1));
  assert.equal(error, plainError);
});

test("searchScales() gives inputs of one number one factor", () => {
  const meanAbs = Float32Array.from({ length: COLUMNS }, (_, i) => 1 + (i % 7) * 4);
  const sharedBy = Int32Array.from({ length: COLUMNS }, (_, i) => i % 16);
  const { factors } = searchWith(meanAbs, sharedBy);
  for (let i = 0; i < COLUMNS; i++) assert.equal(factors[i], factors[i % 16]);
  assert.notEqual(factors[0], factors[1]);
});
