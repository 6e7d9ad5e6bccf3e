import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordGateRows } from "./gate-rows.ggml.ts";
import { gateRowsRef } from "./gate-rows.ref.ts";

test("recordGateRows() agrees with the reference", async () => {
  const x = randomFloats(6 * 20, 1);
  const gate = randomFloats(6, 2).map((value) => value * 5);
  const actual = await runOp((graph) =>
    recordGateRows(graph, { x: graph.input("f32", [6, 20], x), gate: graph.input("f32", [6, 1], gate) }),
  );
  assert.ok(maxDifference(actual, gateRowsRef(x, gate)) < 1e-6);
});

test("recordGateRows() refuses a gate for other rows", async () => {
  const run = runOp((graph) =>
    recordGateRows(graph, {
      x: graph.input("f32", [2, 4], new Float32Array(8)),
      gate: graph.input("f32", [3, 1], new Float32Array(3)),
    }),
  );
  await assert.rejects(run, /gateRows gate: expected f32\[2, 1\], got f32\[3, 1\]/);
});
