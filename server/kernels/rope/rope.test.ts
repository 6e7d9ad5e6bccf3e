import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordRope } from "./rope.ggml.ts";
import { type RopeRef, ropeRef } from "./rope.ref.ts";

const BASE = { rowWidth: 10 * 16, numHeads: 8, headDim: 16, numDims: 16, magnitude: 1 };
interface Case {
  readonly name: string;
  readonly positions: number[];
  readonly theta: number;
  readonly factors?: Float32Array;
  readonly changes?: Partial<typeof BASE>;
}

const CASES: readonly Case[] = [
  { name: "small positions", positions: [0, 1, 2, 3, 9], theta: 10_000 },
  { name: "large positions out of order", positions: [2047, 5, 1024], theta: 500_000 },
  {
    name: "factors per frequency",
    positions: [0, 77, 300],
    theta: 10_000,
    factors: Float32Array.of(1, 1, 1, 2, 3, 8, 8, 8),
  },
  { name: "a part of each head", positions: [0, 3, 900], theta: 10_000, changes: { numDims: 10 } },
  {
    name: "a part of each head, with factors and a magnitude",
    positions: [4, 1000],
    theta: 500_000,
    factors: Float32Array.of(1, 2, 4, 8),
    changes: { numDims: 8, magnitude: 1.19 },
  },
];

for (const { name, positions, theta, factors, changes } of CASES) {
  test(`recordRope() agrees with the reference for ${name}`, async () => {
    const x = randomFloats(positions.length * BASE.rowWidth, 12);
    const args: RopeRef = {
      ...BASE,
      ...changes,
      x,
      theta,
      positions: Int32Array.from(positions),
      ...(factors === undefined ? {} : { frequencyFactors: factors }),
    };
    const actual = await runOp((graph) =>
      recordRope(graph, {
        ...BASE,
        ...changes,
        theta,
        x: graph.input("f32", [positions.length, BASE.rowWidth], x),
        positions: graph.input("i32", [positions.length], args.positions),
        frequencyFactors: factors === undefined ? undefined : graph.input("f32", [factors.length], factors),
      }),
    );
    assert.ok(maxDifference(actual, ropeRef(args)) < 5e-4);
  });
}

/** [3, tokens] and the fourth list, which says nothing. */
const IN_THREE = Int32Array.of(0, 4, 4, 9, 0, 4, 5, 9, 0, 6, 4, 9, 0, 0, 0, 0);
const SECTIONS = [2, 3, 3] as const;

test("recordRope() rotates each section of the frequencies by a position of its own", async () => {
  const x = randomFloats(4 * BASE.rowWidth, 13);
  const actual = await runOp((graph) =>
    recordRope(graph, {
      ...BASE,
      theta: 10_000,
      sections: SECTIONS,
      x: graph.input("f32", [4, BASE.rowWidth], x),
      positions: graph.input("i32", [16], IN_THREE),
    }),
  );
  const expected = ropeRef({ ...BASE, x, theta: 10_000, positions: IN_THREE, sections: SECTIONS });
  assert.ok(maxDifference(actual, expected) < 5e-4);
});

test("recordRope() gives the same bits for three equal positions as for one", async () => {
  const x = randomFloats(3 * BASE.rowWidth, 14);
  const positions = Int32Array.of(0, 77, 1000);
  const rotated = (sections: typeof SECTIONS | undefined, lists: Int32Array): Promise<Float32Array> =>
    runOp((graph) =>
      recordRope(graph, {
        ...BASE,
        theta: 1e6,
        sections,
        x: graph.input("f32", [3, BASE.rowWidth], x),
        positions: graph.input("i32", [lists.length], lists),
      }),
    );
  const lists = Int32Array.of(...positions, ...positions, ...positions, 0, 0, 0);
  assert.deepEqual(await rotated(SECTIONS, lists), await rotated(undefined, positions));
});

test("recordRope() refuses sections of another number of frequencies", async () => {
  const run = runOp((graph) =>
    recordRope(graph, {
      ...BASE,
      theta: 10_000,
      sections: [2, 3, 4],
      x: graph.input("f32", [1, BASE.rowWidth], new Float32Array(BASE.rowWidth)),
      positions: graph.input("i32", [4], new Int32Array(4)),
    }),
  );
  await assert.rejects(run, /expected sections of 8 frequencies, got 2 \+ 3 \+ 4/);
});

test("recordRope() refuses more heads than a row has", async () => {
  const run = runOp((graph) =>
    recordRope(graph, {
      ...BASE,
      theta: 10_000,
      numHeads: 11,
      x: graph.input("f32", [1, BASE.rowWidth], new Float32Array(BASE.rowWidth)),
      positions: graph.input("i32", [1], new Int32Array(1)),
    }),
  );
  await assert.rejects(run, /11 heads of 16 exceed rows of 160/);
});

test("recordRope() refuses to rotate more than a head has", async () => {
  const run = runOp((graph) =>
    recordRope(graph, {
      ...BASE,
      theta: 10_000,
      numDims: 18,
      x: graph.input("f32", [1, BASE.rowWidth], new Float32Array(BASE.rowWidth)),
      positions: graph.input("i32", [1], new Int32Array(1)),
    }),
  );
  await assert.rejects(run, /expected an even number of at most 16 elements, got 18/);
});
