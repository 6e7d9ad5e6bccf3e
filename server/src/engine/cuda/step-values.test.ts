import assert from "node:assert/strict";
import { test } from "node:test";
import { CHOICE_WORDS } from "../../models/cuda/step-layout.ts";
import type { StepInput } from "../step-runner.ts";
import { countQueries, isDecodeStep, packChoices, storedValues } from "./step-values.ts";

function step(lengths: readonly number[], changes: Partial<StepInput> = {}): StepInput {
  let at = 0;
  const sequences = lengths.map((queryLength) => {
    const queryStart = at;
    at += queryLength;
    return { queryStart, queryLength, contextLength: queryLength, blockTable: Int32Array.of(0) };
  });
  const tokenIds = new Int32Array(at);
  const logitRows = Int32Array.from(sequences, ({ queryStart, queryLength }) => queryStart + queryLength - 1);
  return { tokenIds, positions: tokenIds, slots: tokenIds, sequences, logitRows, ...changes };
}

test("isDecodeStep() is true when every sequence adds one token and wants its logits", () => {
  assert.equal(isDecodeStep(step([1, 1, 1])), true);
  assert.equal(isDecodeStep(step([1, 2])), false);
  assert.equal(isDecodeStep(step([1, 1], { logitRows: Int32Array.of(1) })), false);
  assert.equal(isDecodeStep(step([1, 1], { logitRows: Int32Array.of(1, 0) })), false);
  const embeddings = { rows: Int32Array.of(0), values: new Float32Array(4) };
  assert.equal(isDecodeStep(step([1, 1], { embeddings })), false);
});

test("countQueries() counts the sequences in front that add one token, and the longest", () => {
  assert.deepEqual(countQueries(step([1, 1, 7, 1, 3])), { numDecoding: 2, maxQueryLength: 7 });
  assert.deepEqual(countQueries(step([5])), { numDecoding: 0, maxQueryLength: 5 });
});

test("packChoices() writes a row for each choice, and rows that choose nothing behind them", () => {
  const choice = {
    temperature: 0.5,
    topK: 7,
    topP: 0.9,
    minP: 0,
    seedLow: 1,
    seedHigh: 2,
    index: 3,
    banned: [4, 9],
    numTop: 0,
  };
  const values = new Int32Array(4 + 3 * CHOICE_WORDS).fill(-7);
  packChoices([choice, { ...choice, temperature: 0 }], 3, values, 4);
  const floats = new Float32Array(values.buffer);
  assert.equal(floats[4], 2);
  assert.deepEqual([values[5], values[6]], [0, 7]);
  assert.equal(values[5 + CHOICE_WORDS], 1);
  assert.deepEqual([...values.subarray(4 + 2 * CHOICE_WORDS)], new Array(CHOICE_WORDS).fill(0));
  assert.deepEqual([...values.subarray(0, 4)], [-7, -7, -7, -7]);
});

test("storedValues() are those that the device reads", () => {
  const values = Float32Array.of(1, -2);
  assert.equal(storedValues(values, "f32"), values);
  assert.deepEqual([...storedValues(values, "bf16")], [0x3f80, 0xc000]);
});
