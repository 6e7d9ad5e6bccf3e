import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordRmsNormHeads } from "./rms-norm-heads.ggml.ts";
import { rmsNormHeadsRef } from "./rms-norm-heads.ref.ts";

for (const numTokens of [1, 9]) {
  test(`recordRmsNormHeads() agrees with the reference for ${numTokens} tokens`, async () => {
    const shape = { rowWidth: 7 * 16, numHeads: 5, headDim: 16, epsilon: 1e-6 };
    const x = randomFloats(numTokens * shape.rowWidth, 1).map((value) => value * 3);
    const weight = randomFloats(shape.numHeads * shape.headDim, 2);
    const actual = await runOp((graph) =>
      recordRmsNormHeads(graph, {
        x: graph.input("f32", [numTokens, shape.rowWidth], x),
        weight: graph.input("f32", [shape.numHeads, shape.headDim], weight),
        epsilon: shape.epsilon,
      }),
    );
    assert.ok(maxDifference(actual, rmsNormHeadsRef({ ...shape, x, weight })) < 1e-5);
  });
}

test("recordRmsNormHeads() refuses more heads than a row has", async () => {
  const run = runOp((graph) =>
    recordRmsNormHeads(graph, {
      x: graph.input("f32", [1, 8], new Float32Array(8)),
      weight: graph.input("f32", [3, 4], new Float32Array(12)),
      epsilon: 1e-6,
    }),
  );
  await assert.rejects(run, /3 heads of 4 exceed rows of 8/);
});
