import assert from "node:assert/strict";
import { test } from "node:test";
import { randomFloats, runOp } from "../testing/run-op.ts";
import { recordGatherRows } from "./gather-rows.ggml.ts";
import { gatherRowsRef } from "./gather-rows.ref.ts";

test("recordGatherRows() gives the rows of the reference, repeated and out of order", async () => {
  const table = randomFloats(7 * 24, 1);
  const ids = Int32Array.of(6, 0, 3, 3, 1);
  const actual = await runOp((graph) =>
    recordGatherRows(graph, { table: graph.input("f32", [7, 24], table), ids: graph.input("i32", [5], ids) }),
  );
  assert.deepEqual(actual, gatherRowsRef({ table, ids, width: 24 }));
});

test("recordGatherRows() refuses ids that are not integers before ggml sees them", async () => {
  const floats = new Float32Array(4);
  const run = runOp((graph) =>
    recordGatherRows(graph, { table: graph.input("f32", [2, 2], floats), ids: graph.input("f32", [4], floats) }),
  );
  await assert.rejects(run, /gatherRows ids: expected i32\[\*\], got f32\[4\]/);
});

test("gatherRowsRef() refuses a row outside the table", () => {
  assert.throws(() => gatherRowsRef({ table: new Float32Array(4), ids: Int32Array.of(2), width: 2 }), /row 2/);
});
