import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordClamp } from "./clamp.ggml.ts";

test("recordClamp() keeps numbers within the limit and moves others to it", async () => {
  const x = randomFloats(60, 1);
  const actual = await runOp((graph) => recordClamp(graph, { x: graph.input("f32", [6, 10], x), limit: 0.4 }));
  const expected = x.map((value) => Math.min(0.4, Math.max(-0.4, value)));
  assert.ok(maxDifference(actual, expected) < 1e-6);
  assert.ok(maxDifference(actual, x) > 0.5);
});

test("recordClamp() refuses a limit of zero", async () => {
  const run = runOp((graph) => recordClamp(graph, { x: graph.input("f32", [1, 2], new Float32Array(2)), limit: 0 }));
  await assert.rejects(run, /limit above zero, got 0/);
});
