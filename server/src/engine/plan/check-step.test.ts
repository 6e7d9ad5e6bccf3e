import assert from "node:assert/strict";
import { test } from "node:test";
import type { StepInput } from "../step-runner.ts";
import { checkStep } from "./check-step.ts";

const LIMITS = { vocabSize: 100, hiddenSize: 2, blockSize: 4, numBlocks: 8, maxPositions: 16 };
/** A chunk of two tokens after three, and a decode. */
const GOOD: StepInput = {
  tokenIds: Int32Array.of(5, 6, 99),
  positions: Int32Array.of(3, 4, 15),
  slots: Int32Array.of(11, 24, 0),
  logitRows: Int32Array.of(1, 2),
  sequences: [
    { queryStart: 0, queryLength: 2, contextLength: 5, blockTable: Int32Array.of(2, 6) },
    { queryStart: 2, queryLength: 1, contextLength: 1, blockTable: Int32Array.of(0, 77) },
  ],
};

function withSequence(index: number, changes: Partial<StepInput["sequences"][number]>): StepInput {
  const sequences = GOOD.sequences.map((sequence, i) => (i === index ? { ...sequence, ...changes } : sequence));
  return { ...GOOD, sequences };
}

test("checkStep() accepts a step within its limits, and one without tokens", () => {
  checkStep(GOOD, LIMITS);
  checkStep({ ...GOOD, blockCopies: Int32Array.of(0, 7) }, LIMITS);
  const none = new Int32Array(0);
  checkStep({ tokenIds: none, positions: none, slots: none, logitRows: none, sequences: [] }, LIMITS);
});

test("checkStep() accepts tokens of the step before that it may carry", () => {
  checkStep({ ...GOOD, carried: Int32Array.of(-1, -1, 3) }, { ...LIMITS, numCarriable: 4 });
});

test("checkStep() accepts any id where an embedding replaces it", () => {
  const embeddings = { rows: Int32Array.of(2), values: new Float32Array(2) };
  checkStep({ ...GOOD, tokenIds: Int32Array.of(5, 6, 6159), embeddings }, LIMITS);
});

test("checkStep() accepts three positions a token where the runner turns by them", () => {
  checkStep({ ...GOOD, axes: Int32Array.of(3, 3, 15, 3, 4, 0, 3, 5, 0) }, { ...LIMITS, hasAxes: true });
  assert.throws(
    () => checkStep({ ...GOOD, axes: new Int32Array(9) }, LIMITS),
    /step: axes: expected none by this runner/,
  );
  for (const [axes, expected] of [
    [new Int32Array(3), /step: axes: expected 9 numbers, got 3/],
    [new Int32Array(9).fill(16), /step: axes\[0\]: expected 0 to 15, got 16/],
  ] as const) {
    assert.throws(() => checkStep({ ...GOOD, axes }, { ...LIMITS, hasAxes: true }), expected);
  }
});

const oneRow = { rows: Int32Array.of(0), values: new Float32Array(2) };
const REFUSED: readonly (readonly [what: string, input: StepInput, expected: RegExp])[] = [
  [
    "tokens of a step that chose none",
    { ...GOOD, carried: Int32Array.of(-1, -1, 0) },
    /step: carried\[2\]: expected 0 to -1, got 0/,
  ],
  ["too few carried ones", { ...GOOD, carried: Int32Array.of(-1) }, /step: carried: expected 3 numbers, got 1/],
  ["too few positions", { ...GOOD, positions: Int32Array.of(1) }, /step: positions: expected 3 numbers, got 1/],
  ["too many slots", { ...GOOD, slots: new Int32Array(4) }, /step: slots: expected 3 numbers, got 4/],
  [
    "a position at the end",
    { ...GOOD, positions: Int32Array.of(3, 4, 16) },
    /positions\[2\]: expected 0 to 15, got 16/,
  ],
  ["an id at the end", { ...GOOD, tokenIds: Int32Array.of(5, 100, 0) }, /tokenIds\[1\]: expected 0 to 99, got 100/],
  ["a negative id", { ...GOOD, tokenIds: Int32Array.of(-1, 0, 0) }, /tokenIds\[0\]/],
  ["a slot at the end", { ...GOOD, slots: Int32Array.of(11, 24, 32) }, /slots\[2\]: expected 0 to 31, got 32/],
  ["a slot the table does not hold", { ...GOOD, slots: Int32Array.of(11, 25, 0) }, /slots\[1\]: expected 24/],
  ["a logit row at the end", { ...GOOD, logitRows: Int32Array.of(3) }, /logitRows\[0\]: expected 0 to 2, got 3/],
  [
    "a block at the end",
    withSequence(0, { blockTable: Int32Array.of(2, 8) }),
    /blockTable\[1\]: expected 0 to 7, got 8/,
  ],
  ["too few blocks", withSequence(0, { blockTable: Int32Array.of(2) }), /sequences\[0\]: expected 2 blocks, got 1/],
  ["a gap", withSequence(1, { queryStart: 3 }), /sequences\[1\]: expected queries from token 2 on/],
  ["no query", withSequence(1, { queryLength: 0 }), /sequences\[1\]/],
  ["fewer tokens than queries", withSequence(0, { contextLength: 1 }), /sequences\[0\]/],
  ["a context that is no number", withSequence(0, { contextLength: Number.NaN }), /sequences\[0\]/],
  ["uncovered tokens", { ...GOOD, sequences: GOOD.sequences.slice(0, 1) }, /sequences cover 2 of 3 tokens/],
  [
    "sequences beyond the tokens",
    withSequence(1, { queryLength: 9, contextLength: 9 }),
    /sequences cover 11 of 3 tokens/,
  ],
  ["half a pair of blocks", { ...GOOD, blockCopies: Int32Array.of(1) }, /blockCopies: expected pairs/],
  ["a copy to no block", { ...GOOD, blockCopies: Int32Array.of(1, 8) }, /blockCopies\[1\]/],
  [
    "an embedding of another width",
    { ...GOOD, embeddings: { ...oneRow, values: new Float32Array(3) } },
    /expected 2 numbers/,
  ],
  [
    "an embedding for no token",
    { ...GOOD, embeddings: { ...oneRow, rows: Int32Array.of(3) } },
    /embeddings\.rows\[0\]/,
  ],
  [
    "two embeddings for one token",
    { ...GOOD, embeddings: { rows: Int32Array.of(1, 1), values: new Float32Array(4) } },
    /embeddings\.rows: 1 occurs twice/,
  ],
];

for (const [what, input, expected] of REFUSED) {
  test(`checkStep() refuses ${what}`, () => {
    assert.throws(() => checkStep(input, LIMITS), expected);
  });
}

test("checkStep() refuses two sequences that write one slot", () => {
  const sequences = [0, 1].map((queryStart) => ({
    queryStart,
    queryLength: 1,
    contextLength: 1,
    blockTable: Int32Array.of(3),
  }));
  const two = { tokenIds: Int32Array.of(1, 2), positions: new Int32Array(2), slots: Int32Array.of(12, 12) };
  assert.throws(() => checkStep({ ...two, logitRows: new Int32Array(0), sequences }, LIMITS), /slots: 12 occurs twice/);
});
