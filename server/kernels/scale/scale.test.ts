import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordScale } from "./scale.ggml.ts";
import { scaleRef } from "./scale.ref.ts";

test("recordScale() agrees with the reference", async () => {
  const x = randomFloats(3 * 20, 1);
  const actual = await runOp((graph) => recordScale(graph, { x: graph.input("f32", [3, 20], x), factor: 9.75 }));
  assert.ok(maxDifference(actual, scaleRef(x, 9.75)) < 1e-5);
});
