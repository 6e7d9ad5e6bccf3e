import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordRope } from "./rope.ggml.ts";
import { type RopeRef, ropeRef } from "./rope.ref.ts";

const BASE = { rowWidth: 10 * 16, numHeads: 8, headDim: 16, theta: 10_000 };
const CASES: readonly { name: string; positions: number[]; theta: number; factors?: Float32Array }[] = [
  { name: "small positions", positions: [0, 1, 2, 3, 9], theta: 10_000 },
  { name: "large positions out of order", positions: [2047, 5, 1024], theta: 500_000 },
  {
    name: "factors per frequency",
    positions: [0, 77, 300],
    theta: 10_000,
    factors: Float32Array.of(1, 1, 1, 2, 3, 8, 8, 8),
  },
];

for (const { name, positions, theta, factors } of CASES) {
  test(`recordRope() agrees with the reference for ${name}`, async () => {
    const x = randomFloats(positions.length * BASE.rowWidth, 12);
    const args: RopeRef = {
      ...BASE,
      x,
      theta,
      positions: Int32Array.from(positions),
      ...(factors === undefined ? {} : { frequencyFactors: factors }),
    };
    const actual = await runOp((graph) =>
      recordRope(graph, {
        ...BASE,
        theta,
        x: graph.input("f32", [positions.length, BASE.rowWidth], x),
        positions: graph.input("i32", [positions.length], args.positions),
        frequencyFactors: factors === undefined ? undefined : graph.input("f32", [8], factors),
      }),
    );
    assert.ok(maxDifference(actual, ropeRef(args)) < 5e-4);
  });
}

test("recordRope() refuses more heads than a row has", async () => {
  const run = runOp((graph) =>
    recordRope(graph, {
      ...BASE,
      numHeads: 11,
      x: graph.input("f32", [1, BASE.rowWidth], new Float32Array(BASE.rowWidth)),
      positions: graph.input("i32", [1], new Int32Array(1)),
    }),
  );
  await assert.rejects(run, /11 heads of 16 exceed rows of 160/);
});
