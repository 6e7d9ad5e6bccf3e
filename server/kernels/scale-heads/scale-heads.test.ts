import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordScaleHeads } from "./scale-heads.ggml.ts";

test("recordScaleHeads() multiplies each head of each token by its factor", async () => {
  const [numTokens, numHeads, headDim] = [3, 4, 6];
  const x = randomFloats(numTokens * numHeads * headDim, 1);
  const factors = randomFloats(numTokens * numHeads, 2);
  const actual = await runOp((graph) => {
    const rows = graph.input("f32", [numTokens, numHeads * headDim], x);
    const heads = { ...rows, shape: [numTokens, numHeads, headDim] } as const;
    return recordScaleHeads(graph, { x: heads, factors: graph.input("f32", [numTokens, numHeads], factors) });
  });
  const expected = x.map((value, i) => value * (factors[Math.floor(i / headDim)] ?? 0));
  assert.ok(maxDifference(actual, expected) < 1e-6);
});

test("recordScaleHeads() refuses more factors than heads", async () => {
  const run = runOp((graph) => {
    const rows = graph.input("f32", [1, 8], new Float32Array(8));
    const factors = graph.input("f32", [1, 3], new Float32Array(3));
    return recordScaleHeads(graph, { x: { ...rows, shape: [1, 2, 4] }, factors });
  });
  await assert.rejects(run, /3 factors for 2 heads/);
});
