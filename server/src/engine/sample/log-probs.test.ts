import assert from "node:assert/strict";
import { test } from "node:test";
import { logProb, logSumExp, topOf } from "./log-probs.ts";
import { uniformAt } from "./random.ts";

test("topOf() agrees with a full sort, ties by the smaller id", () => {
  for (let round = 0; round < 100; round++) {
    const row = Float32Array.from({ length: 50 }, (_, i) => Math.round(uniformAt(round, 1, i) * 20));
    const count = 1 + (round % 12);
    const ids = new Int32Array(count + 3).fill(99);
    const values = new Float32Array(count + 3).fill(99);
    topOf(row, count, ids, values, 1);
    const sorted = [...row.keys()].sort((a, b) => (row[b] ?? 0) - (row[a] ?? 0) || a - b).slice(0, count);
    assert.deepEqual([...ids], [99, ...sorted, 99, 99]);
    assert.deepEqual([...values], [99, ...sorted.map((id) => row[id] ?? 0), 99, 99]);
  }
});

test("topOf() leaves ids of -1 where a row has too few numbers", () => {
  const ids = new Int32Array(3);
  const values = new Float32Array(3);
  topOf(Float32Array.of(Number.NaN, 2, Number.NEGATIVE_INFINITY), 3, ids, values, 0);
  assert.deepEqual([...ids], [1, -1, -1]);
  assert.deepEqual([...values], [2, Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]);
});

test("logProb() and logSumExp() agree with double precision on rows of any size and with infinities", () => {
  for (const shift of [0, 1000, -1000]) {
    const row = Float32Array.from({ length: 100 }, (_, i) => shift + uniformAt(3, 1, i) * 8);
    const exact = Math.log(row.reduce((sum, score) => sum + Math.exp(score - shift), 0)) + shift;
    assert.equal(Math.abs(logSumExp(row) - exact) < 1e-9, true);
    const total = row.reduce((sum, _, id) => sum + Math.exp(logProb(row, id)), 0);
    assert.equal(Math.abs(total - 1) < 1e-9, true);
  }
  const { NaN: nan, POSITIVE_INFINITY: top, NEGATIVE_INFINITY: bottom } = Number;
  assert.equal(logProb(Float32Array.of(nan, 3, bottom), 1), 0);
  assert.equal(logProb(Float32Array.of(nan, 3, bottom), 2), bottom);
  assert.equal(logProb(Float32Array.of(1, top), 1), 0);
});
