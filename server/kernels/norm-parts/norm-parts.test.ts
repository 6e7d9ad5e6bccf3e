import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordNormParts } from "./norm-parts.ggml.ts";
import { normPartsRef } from "./norm-parts.ref.ts";

const SHAPE = { rowWidth: 40, widths: [24, 8], epsilon: 1e-6 };

for (const kind of ["rms", "layer"] as const) {
  test(`recordNormParts() agrees with the reference of ${kind} norms`, async () => {
    const x = randomFloats(5 * SHAPE.rowWidth, 1);
    const weight = randomFloats(32, 2);
    const actual = await runOp((graph) =>
      recordNormParts(graph, {
        ...SHAPE,
        kind,
        x: graph.input("f32", [5, SHAPE.rowWidth], x),
        weight: graph.input("f32", [4, 8], weight),
      }),
    );
    assert.ok(maxDifference(actual, normPartsRef({ ...SHAPE, kind, x, weight })) < 1e-5);
  });
}

test("recordNormParts() refuses parts that exceed the row", async () => {
  const run = runOp((graph) => {
    const x = graph.input("f32", [1, 8], new Float32Array(8));
    const weight = graph.input("f32", [12], new Float32Array(12));
    return recordNormParts(graph, { x, weight, widths: [8, 4], epsilon: 1e-6, kind: "rms" });
  });
  await assert.rejects(run, /parts of 12 elements, rows of 8 and 12 weights/);
});
