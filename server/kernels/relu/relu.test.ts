import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordRelu } from "./relu.ggml.ts";

for (const isSquared of [false, true]) {
  test(`recordRelu() gives ${isSquared ? "the square of " : ""}what is above zero`, async () => {
    const x = randomFloats(60, 1).map((value) => 3 * value);
    const actual = await runOp((graph) => recordRelu(graph, { x: graph.input("f32", [6, 10], x), isSquared }));
    const expected = x.map((value) => Math.max(0, value) ** (isSquared ? 2 : 1));
    assert.ok(maxDifference(actual, expected) < 1e-6);
  });
}
