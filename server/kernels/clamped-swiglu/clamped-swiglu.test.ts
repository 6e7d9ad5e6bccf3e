import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordClampedSwiglu } from "./clamped-swiglu.ggml.ts";

const [ALPHA, LIMIT, WIDTH] = [1.7, 0.8, 12];

function expectedOf(gateUp: Float32Array): Float32Array {
  const rows = Array.from({ length: gateUp.length / (2 * WIDTH) }, (_, row) => row * 2 * WIDTH);
  return Float32Array.from(
    rows.flatMap((row) =>
      Array.from({ length: WIDTH }, (_, i) => {
        const gate = Math.min(LIMIT, gateUp[row + i] ?? 0);
        const up = Math.max(-LIMIT, Math.min(LIMIT, gateUp[row + WIDTH + i] ?? 0));
        return (gate / (1 + Math.exp(-ALPHA * gate))) * (up + 1);
      }),
    ),
  );
}

test("recordClampedSwiglu() clamps both halves", async () => {
  const gateUp = randomFloats(5 * 2 * WIDTH, 3).map((value) => 2 * value);
  const actual = await runOp((graph) =>
    recordClampedSwiglu(graph, { gateUp: graph.input("f32", [5, 2 * WIDTH], gateUp), alpha: ALPHA, limit: LIMIT }),
  );
  assert.ok(maxDifference(actual, expectedOf(gateUp)) < 1e-6);
});
