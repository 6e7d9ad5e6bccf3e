import assert from "node:assert/strict";
import { test } from "node:test";
import { convertElements } from "../../src/device/cpu/convert-elements.ts";
import { openGgml } from "../../src/native/ggml/ggml.ts";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
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

for (const type of ["q8_0", "q4_0", "q4_1", "q4_K", "q5_K", "q6_K"] as const) {
  test(`recordGatherRows() widens rows of ${type}`, async () => {
    const ggml = openGgml();
    const stored = convertElements(ggml, "f32", type, new Uint8Array(randomFloats(5 * 256, 2).buffer));
    const table = new Float32Array(convertElements(ggml, type, "f32", stored).buffer);
    const ids = Int32Array.of(4, 1);
    const actual = await runOp((graph) =>
      recordGatherRows(graph, { table: graph.input(type, [5, 256], stored), ids: graph.input("i32", [2], ids) }),
    );
    // Multiplications in another order: a unit in the last place.
    assert.ok(maxDifference(actual, gatherRowsRef({ table, ids, width: 256 })) < 1e-6);
  });
}

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
