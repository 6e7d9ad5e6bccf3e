import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordXielu } from "./xielu.ggml.ts";
import { xieluRef } from "./xielu.ref.ts";

for (const [positive, negative, linear] of [
  [0.2, -1, 0.5],
  [-2, 0.7, 0.25],
] as const) {
  test(`recordXielu() agrees with the reference: ${positive}, ${negative}, ${linear}`, async () => {
    const x = randomFloats(7 * 24, 1).map((value) => 3 * value);
    const actual = await runOp((graph) => {
      const one = (value: number) => graph.input("f32", [1], Float32Array.of(value));
      const parameters = { positive: one(positive), negative: one(negative), linear: one(linear) };
      return recordXielu(graph, { x: graph.input("f32", [7, 24], x), ...parameters });
    });
    assert.ok(maxDifference(actual, xieluRef({ x, positive, negative, linear })) < 1e-5);
  });
}
