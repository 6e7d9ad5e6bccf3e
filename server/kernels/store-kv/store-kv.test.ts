import assert from "node:assert/strict";
import { test } from "node:test";
import { recordGatherRows } from "../gather-rows/gather-rows.ggml.ts";
import { dequantizeRowsRef, quantizeRowsRef } from "../linear/quantize-rows.ref.ts";
import { randomFloats, runOp, runOpOnBuffer } from "../testing/run-op.ts";
import { recordStoreKv } from "./store-kv.ggml.ts";
import { storeKvRef } from "./store-kv.ref.ts";

for (const column of [0, 8, 16]) {
  test(`recordStoreKv() writes the columns from ${column} to the slots and leaves the others`, async () => {
    const cache = randomFloats(10 * 16, 13);
    const source = randomFloats(3 * 32, 14);
    const slots = Int32Array.of(9, 0, 4);
    const actual = await runOpOnBuffer([10, 16], cache, (graph, tensor) =>
      recordStoreKv(graph, {
        cache: tensor,
        source: graph.input("f32", [3, 32], source),
        slots: graph.input("i32", [3], slots),
        column,
      }),
    );
    assert.deepEqual(actual, storeKvRef({ cache, source, slots, width: 16, sourceWidth: 32, column }));
  });
}

test("recordStoreKv() rounds rows to the blocks of a q8_0 cache", async () => {
  const source = randomFloats(3 * 96, 14);
  const slots = Int32Array.of(9, 0, 4);
  const actual = await runOp((graph) => {
    const cache = graph.empty("q8_0", [10, 64]);
    recordStoreKv(graph, {
      cache,
      source: graph.input("f32", [3, 96], source),
      slots: graph.input("i32", [3], slots),
      column: 32,
    });
    return recordGatherRows(graph, { table: cache, ids: graph.input("i32", [3], slots) });
  });
  const rows = new Float32Array(3 * 64);
  for (let i = 0; i < 3; i++) rows.set(source.subarray(i * 96 + 32, (i + 1) * 96), i * 64);
  assert.deepEqual(actual, dequantizeRowsRef("q8_0", quantizeRowsRef("q8_0", rows)));
});

test("recordStoreKv() refuses columns that a row does not have", async () => {
  const run = runOp((graph) => {
    const cache = graph.input("f32", [4, 16], new Float32Array(64));
    const source = graph.input("f32", [1, 32], new Float32Array(32));
    recordStoreKv(graph, { cache, source, slots: graph.input("i32", [1], new Int32Array(1)), column: 17 });
    return cache;
  });
  await assert.rejects(run, /columns 17 to 33 exceed rows of 32/);
});
