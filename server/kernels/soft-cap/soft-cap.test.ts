import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordSoftCap } from "./soft-cap.ggml.ts";
import { softCapRef } from "./soft-cap.ref.ts";

for (const cap of [0.5, 30]) {
  test(`recordSoftCap() agrees with the reference for a cap of ${cap}`, async () => {
    const x = randomFloats(3 * 40, 1).map((value) => value * 50);
    const actual = await runOp((graph) => recordSoftCap(graph, { x: graph.input("f32", [3, 40], x), cap }));
    assert.ok(maxDifference(actual, softCapRef(x, cap)) < 1e-4);
    assert.ok(actual.every((value) => Math.abs(value) <= cap));
  });
}

test("recordSoftCap() refuses a cap of zero", async () => {
  const run = runOp((graph) => recordSoftCap(graph, { x: graph.input("f32", [1, 1], new Float32Array(1)), cap: 0 }));
  await assert.rejects(run, /expected a cap above zero, got 0/);
});
