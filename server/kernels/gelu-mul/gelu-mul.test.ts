import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordGeluMul } from "./gelu-mul.ggml.ts";
import { geluMulRef } from "./gelu-mul.ref.ts";

for (const form of ["tanh", "erf"] as const) {
  test(`recordGeluMul() agrees with the reference in its ${form} form`, async () => {
    const gateUp = randomFloats(5 * 2 * 24, 3).map((value) => value * 4);
    const actual = await runOp((graph) => recordGeluMul(graph, { gateUp: graph.input("f32", [5, 48], gateUp), form }));
    assert.ok(maxDifference(actual, geluMulRef(gateUp, 24, form)) < 5e-6);
  });
}

test("recordGeluMul() refuses an odd width", async () => {
  const run = runOp((graph) =>
    recordGeluMul(graph, { gateUp: graph.input("f32", [1, 3], new Float32Array(3)), form: "tanh" }),
  );
  await assert.rejects(run, /expected an even width, got 3/);
});
