import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordLayerNorm } from "./layer-norm.ggml.ts";
import { layerNormRef } from "./layer-norm.ref.ts";

for (const [numRows, width] of [
  [1, 48],
  [7, 96],
] as const) {
  test(`recordLayerNorm() agrees with the reference for [${numRows}, ${width}], with and without a bias`, async () => {
    const x = randomFloats(numRows * width, 1).map((value) => value * 3 + 1);
    const weight = randomFloats(width, 2);
    const bias = randomFloats(width, 3);
    for (const shift of [undefined, bias]) {
      const actual = await runOp((graph) =>
        recordLayerNorm(graph, {
          x: graph.input("f32", [numRows, width], x),
          weight: graph.input("f32", [width], weight),
          bias: shift && graph.input("f32", [width], shift),
          epsilon: 1e-5,
        }),
      );
      const expected = layerNormRef({ x, weight, epsilon: 1e-5, ...(shift === undefined ? {} : { bias: shift }) });
      assert.ok(maxDifference(actual, expected) < 1e-5);
    }
  });
}

test("recordLayerNorm() refuses a weight of another width", async () => {
  const run = runOp((graph) =>
    recordLayerNorm(graph, {
      x: graph.input("f32", [1, 4], new Float32Array(4)),
      weight: graph.input("f32", [5], new Float32Array(5)),
      epsilon: 1e-5,
    }),
  );
  await assert.rejects(run, /layerNorm weight: expected f32\[4\], got f32\[5\]/);
});
