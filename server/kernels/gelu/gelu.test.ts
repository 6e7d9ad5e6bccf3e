import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, runOp } from "../testing/run-op.ts";
import { recordGelu } from "./gelu.ggml.ts";
import { geluRef } from "./gelu.ref.ts";

/** From where gelu is zero to where it is the identity, and far beyond. */
const X = Float32Array.from({ length: 402 }, (_, i) => (i < 400 ? (i - 200) / 20 : (i - 400.5) * 2e4));

for (const form of ["tanh", "erf"] as const) {
  test(`recordGelu() agrees with the reference in its ${form} form`, async () => {
    const actual = await runOp((graph) => recordGelu(graph, { x: graph.input("f32", [2, 201], X), form }));
    assert.ok(maxDifference(actual, geluRef(X, form)) < 2e-3, "far out");
    assert.ok(maxDifference(actual.subarray(0, 400), geluRef(X.subarray(0, 400), form)) < 2e-6, "near zero");
  });
}
