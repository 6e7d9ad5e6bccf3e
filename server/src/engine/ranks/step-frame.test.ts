import assert from "node:assert/strict";
import { test } from "node:test";
import type { StepInput, TokenChoice } from "../step-runner.ts";
import { frameStep, unframeStep } from "./step-frame.ts";

const INPUT: StepInput = {
  tokenIds: Int32Array.of(5, 6, 7),
  positions: Int32Array.of(0, 1, 40),
  slots: Int32Array.of(16, 17, 40),
  sequences: [
    { queryStart: 0, queryLength: 2, contextLength: 2, blockTable: Int32Array.of(1) },
    { queryStart: 2, queryLength: 1, contextLength: 41, blockTable: Int32Array.of(-1, 0, 2), adapter: 7 },
  ],
  logitRows: Int32Array.of(1, 2),
};
const CHOICE: TokenChoice = {
  temperature: 0.7,
  topK: 3,
  topP: 0.95,
  minP: 0.1,
  seedLow: 0xfedcba98,
  seedHigh: 3,
  index: 12,
  banned: [7, 8],
  numTop: 0,
};

test("unframeStep() gives back what frameStep() was given", () => {
  const embeddings = { rows: Int32Array.of(0), values: Float32Array.of(0.5, -1e-30) };
  for (const [input, choices] of [
    [INPUT, undefined],
    [INPUT, []],
    [{ ...INPUT, carried: Int32Array.of(-1, -1, 4) }, [CHOICE, undefined, { ...CHOICE, temperature: 1 / 3 }]],
    [{ ...INPUT, axes: Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7, 8), embeddings }, undefined],
    [{ ...INPUT, embeddings, blockCopies: Int32Array.of(3, 4, 5, 6) }, [CHOICE]],
  ] as const) {
    assert.deepEqual(unframeStep(frameStep(input, choices, 16)), { input, choices });
  }
});

test("frameStep() leaves out blocks behind the context", () => {
  const [first, second] = INPUT.sequences;
  assert.ok(first !== undefined && second !== undefined);
  const longer = { ...second, blockTable: Int32Array.of(-1, 0, 2, 9, 9, 9) };
  const { input } = unframeStep(frameStep({ ...INPUT, sequences: [first, longer] }, undefined, 16));
  assert.deepEqual(input.sequences[1]?.blockTable, Int32Array.of(-1, 0, 2));
});

test("frameStep() takes copies: a later change of the step does not reach the other side", () => {
  const tokenIds = Int32Array.of(5, 6, 7);
  const words = frameStep({ ...INPUT, tokenIds }, undefined, 16);
  tokenIds.fill(0);
  assert.deepEqual(unframeStep(words).input.tokenIds, Int32Array.of(5, 6, 7));
});

test("unframeStep() refuses a step that was cut off", () => {
  const words = frameStep(INPUT, undefined, 16);
  assert.throws(() => unframeStep(words.subarray(0, -1)), /a step of \d+ words, got \d+/);
});
