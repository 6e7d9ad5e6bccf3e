import assert from "node:assert/strict";
import { test } from "node:test";
import { recordGatherRows } from "../gather-rows/gather-rows.ggml.ts";
import { randomFloats, runOp } from "../testing/run-op.ts";
import { recordReplaceRows } from "./replace-rows.ggml.ts";
import { replaceRowsRef } from "./replace-rows.ref.ts";

test("recordReplaceRows() overwrites the named rows and no other", async () => {
  const x = randomFloats(6 * 8, 2);
  const values = randomFloats(2 * 8, 3);
  const rows = Int32Array.of(4, 1);
  const actual = await runOp((graph) => {
    const all = graph.input("i32", [6], Int32Array.of(0, 1, 2, 3, 4, 5));
    const result = recordGatherRows(graph, { table: graph.input("f32", [6, 8], x), ids: all });
    return recordReplaceRows(graph, {
      x: result,
      rows: graph.input("i32", [2], rows),
      values: graph.input("f32", [2, 8], values),
    });
  });
  assert.deepEqual(actual, replaceRowsRef({ x, rows, values, width: 8 }));
});
