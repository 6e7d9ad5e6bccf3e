import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordDisentangledBias } from "./disentangled-bias.ggml.ts";
import { disentangledBias } from "./disentangled-bias.ref.ts";
import { tableRow } from "./position-buckets.ts";

const SHAPE = { numHeads: 3, headDim: 4, scale: 0.3 };
const WIDTH = SHAPE.numHeads * SHAPE.headDim;

/** Columns of rows of [queries | keys | values]. */
function columns(rows: Float32Array, at: number): Float32Array {
  return rows.filter((_, i) => Math.floor((i % (3 * WIDTH)) / WIDTH) === at);
}

test("recordDisentangledBias() adds what positions say of queries and of keys", async () => {
  const buckets = { span: 4, maxDistance: 16 };
  const [first, count, numRows] = [2, 7, 8];
  const qkv = randomFloats((first + count) * 3 * WIDTH, 1);
  const positions = randomFloats(numRows * 3 * WIDTH, 2);
  const pairs = (by: (i: number, j: number) => number): Int32Array =>
    Int32Array.from({ length: count * count }, (_, pair) => {
      const [i, j] = [Math.floor(pair / count), pair % count];
      return tableRow(i - j, buckets) + numRows * by(i, j);
    });
  const [byQuery, byKey] = [pairs((i) => i), pairs((_, j) => j)];
  const actual = await runOp((graph) =>
    recordDisentangledBias(graph, {
      ...SHAPE,
      qkv: graph.input("f32", [first + count, 3 * WIDTH], qkv),
      positions: graph.input("f32", [numRows, 3 * WIDTH], positions),
      first,
      count,
      byQuery: graph.input("i32", [byQuery.length], byQuery),
      byKey: graph.input("i32", [byKey.length], byKey),
    }),
  );
  const own = qkv.subarray(first * 3 * WIDTH);
  const expected = disentangledBias({
    ...SHAPE,
    q: columns(own, 0),
    keys: columns(own, 1),
    positionQueries: columns(positions, 0),
    positionKeys: columns(positions, 1),
    buckets,
  });
  assert.ok(maxDifference(actual, expected) < 1e-5, `off by ${maxDifference(actual, expected)}`);
});

test("tableRow() has a row for each small distance, and shares rows by the logarithm of larger ones", () => {
  const buckets = { span: 8, maxDistance: 32 };
  assert.deepEqual(
    [0, 1, -4, 4, 5, -5, 31, 100, -100].map((distance) => tableRow(distance, buckets)),
    [8, 9, 4, 12, 13, 3, 15, 15, 0],
  );
  const plain = { span: 3, maxDistance: undefined };
  assert.deepEqual(
    [-5, -2, 0, 2, 5].map((distance) => tableRow(distance, plain)),
    [0, 1, 3, 5, 5],
  );
});
