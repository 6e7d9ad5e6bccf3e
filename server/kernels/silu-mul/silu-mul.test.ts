import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordSiluMul } from "./silu-mul.ggml.ts";
import { siluMulRef } from "./silu-mul.ref.ts";

for (const [rows, width] of [
  [1, 1024],
  [9, 40],
] as const) {
  test(`recordSiluMul() agrees with the reference for ${rows} rows of ${width}`, async () => {
    const gateUp = randomFloats(rows * 2 * width, 9).map((value) => value * 8);
    const actual = await runOp((graph) =>
      recordSiluMul(graph, { gateUp: graph.input("f32", [rows, 2 * width], gateUp) }),
    );
    assert.ok(maxDifference(actual, siluMulRef(gateUp, width)) < 1e-4);
  });
}

test("recordSiluMul() refuses an odd width", async () => {
  const run = runOp((graph) => recordSiluMul(graph, { gateUp: graph.input("f32", [1, 3], new Float32Array(3)) }));
  await assert.rejects(run, /expected an even width, got 3/);
});
