import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordMixExperts } from "./mix-experts.ggml.ts";
import { mixExpertsRef } from "./mix-experts.ref.ts";

for (const [numTokens, numChosen] of [
  [1, 2],
  [5, 4],
  [3, 1],
] as const) {
  test(`recordMixExperts() agrees with the reference for ${numTokens} tokens of ${numChosen} experts`, async () => {
    const x = randomFloats(numTokens * numChosen * 24, 1);
    const weights = randomFloats(numTokens * numChosen, 2);
    const actual = await runOp((graph) =>
      recordMixExperts(graph, {
        x: graph.input("f32", [numTokens * numChosen, 24], x),
        weights: graph.input("f32", [numTokens, numChosen], weights),
      }),
    );
    assert.ok(maxDifference(actual, mixExpertsRef(x, weights, numChosen)) < 1e-6);
  });
}

test("recordMixExperts() refuses rows without a weight", async () => {
  const run = runOp((graph) =>
    recordMixExperts(graph, {
      x: graph.input("f32", [3, 8], new Float32Array(24)),
      weights: graph.input("f32", [1, 2], new Float32Array(2)),
    }),
  );
  await assert.rejects(run, /mixExperts x: expected f32\[2, \*\], got f32\[3, 8\]/);
});
