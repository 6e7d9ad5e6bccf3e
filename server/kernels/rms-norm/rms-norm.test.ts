import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordRmsNorm } from "./rms-norm.ggml.ts";
import { rmsNormRef } from "./rms-norm.ref.ts";

for (const [rows, width, epsilon] of [
  [1, 64, 1e-5],
  [5, 384, 1e-6],
  [33, 96, 0.5],
] as const) {
  test(`recordRmsNorm() agrees with the reference for ${rows} rows of ${width}, epsilon ${epsilon}`, async () => {
    const x = randomFloats(rows * width, 4);
    const weight = randomFloats(width, 5);
    const actual = await runOp((graph) =>
      recordRmsNorm(graph, {
        x: graph.input("f32", [rows, width], x),
        weight: graph.input("f32", [width], weight),
        epsilon,
      }),
    );
    assert.ok(maxDifference(actual, rmsNormRef({ x, weight, epsilon })) < 1e-5);
  });
}

test("recordRmsNorm() refuses a weight of another width before ggml sees it", async () => {
  const run = runOp((graph) =>
    recordRmsNorm(graph, {
      x: graph.input("f32", [1, 4], new Float32Array(4)),
      weight: graph.input("f32", [3], new Float32Array(3)),
      epsilon: 1e-5,
    }),
  );
  await assert.rejects(run, /rmsNorm weight: expected f32\[4\], got f32\[3\]/);
});
