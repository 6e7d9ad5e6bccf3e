import assert from "node:assert/strict";
import { test } from "node:test";
import { fp16ToNumber, numberToFp16 } from "../../src/core/fp16.ts";
import { dequantizeRowsRef, quantizeRowsRef } from "../linear/quantize-rows.ref.ts";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordAttention, recordSpans } from "./attention.ggml.ts";
import { attentionRef } from "./attention.ref.ts";
import { type AttentionSequence, planAttention } from "./attention-span.ts";

const HEADS = { numHeads: 6, numKvHeads: 2, headDim: 16, scale: 0.25 };
const BLOCK_SIZE = 8;
const NUM_SLOTS = 1024;
const CONTIGUOUS = Int32Array.from({ length: 100 }, (_, i) => i + 3);
const SCATTERED = Int32Array.from({ length: 100 }, (_, i) => (i * 37 + 5) % 128);

function sequence(
  queryStart: number,
  queryLength: number,
  contextLength: number,
  blockTable: Int32Array,
): AttentionSequence {
  return { queryStart, queryLength, contextLength, blockTable };
}

const CASES: readonly { readonly name: string; readonly sequences: readonly AttentionSequence[] }[] = [
  { name: "one decode", sequences: [sequence(0, 1, 13, CONTIGUOUS)] },
  { name: "one long decode, whose keys the threads share", sequences: [sequence(0, 1, 700, CONTIGUOUS)] },
  { name: "one decode over scattered blocks", sequences: [sequence(0, 1, 61, SCATTERED)] },
  { name: "a whole prompt", sequences: [sequence(0, 20, 20, CONTIGUOUS)] },
  { name: "a long prompt, computed in tiles", sequences: [sequence(0, 150, 150, CONTIGUOUS)] },
  { name: "a chunk after others, over scattered blocks", sequences: [sequence(0, 70, 300, SCATTERED)] },
  {
    name: "decodes and chunks side by side",
    sequences: [
      sequence(0, 1, 30, CONTIGUOUS),
      sequence(1, 9, 40, SCATTERED),
      sequence(10, 1, 1, SCATTERED),
      sequence(11, 66, 66, CONTIGUOUS),
    ],
  },
];

const VARIANTS: readonly { readonly name: string; readonly window?: number; readonly softCap?: number }[] = [
  { name: "" },
  { name: ", a window", window: 40 },
  { name: ", a soft cap", softCap: 1.5 },
  { name: ", a window and a soft cap", window: 7, softCap: 3 },
];

for (const { name, sequences, variant } of CASES.flatMap((one) => VARIANTS.map((variant) => ({ ...one, variant })))) {
  test(`recordAttention() agrees with the reference for ${name}${variant.name}`, async () => {
    const numTokens = sequences.reduce((sum, { queryLength }) => sum + queryLength, 0);
    const width = HEADS.numKvHeads * HEADS.headDim;
    const q = randomFloats(numTokens * HEADS.numHeads * HEADS.headDim, 15).map((value) => value * 4);
    const keyCache = randomFloats(NUM_SLOTS * width, 16);
    const valueCache = randomFloats(NUM_SLOTS * width, 17);
    const actual = await runOp((graph) => {
      const flat = graph.input("f32", [numTokens, HEADS.numHeads * HEADS.headDim], q);
      const spans = sequences.map((one) => planAttention(one, BLOCK_SIZE, { window: variant.window }));
      return recordAttention(graph, {
        ...HEADS,
        softCap: variant.softCap,
        q: { ...flat, shape: [numTokens, HEADS.numHeads, HEADS.headDim] },
        keyCache: graph.input("f32", [NUM_SLOTS, width], keyCache),
        valueCache: graph.input("f32", [NUM_SLOTS, width], valueCache),
        spans: recordSpans(graph, spans),
      });
    });
    const expected = attentionRef({ ...HEADS, ...variant, q, keyCache, valueCache, sequences, blockSize: BLOCK_SIZE });
    assert.ok(maxDifference(actual, expected) < 1e-5, `${maxDifference(actual, expected)}`);
  });
}

for (const headDim of [24, 80, 96, 128, 256]) {
  test(`recordAttention() agrees with the reference for heads of ${headDim}, prompts beside decodes`, async () => {
    const sequences = [sequence(0, 70, 130, SCATTERED), sequence(70, 1, 90, CONTIGUOUS)];
    const shape = { numHeads: 4, numKvHeads: 2, headDim, scale: 1 / Math.sqrt(headDim), window: 50, softCap: 2 };
    const width = shape.numKvHeads * headDim;
    const q = randomFloats(71 * shape.numHeads * headDim, 15).map((value) => value * 4);
    const keyCache = randomFloats(NUM_SLOTS * width, 16);
    const valueCache = randomFloats(NUM_SLOTS * width, 17);
    const actual = await runOp((graph) => {
      const flat = graph.input("f32", [71, shape.numHeads * headDim], q);
      return recordAttention(graph, {
        ...shape,
        q: { ...flat, shape: [71, shape.numHeads, headDim] },
        keyCache: graph.input("f32", [NUM_SLOTS, width], keyCache),
        valueCache: graph.input("f32", [NUM_SLOTS, width], valueCache),
        spans: recordSpans(
          graph,
          sequences.map((one) => planAttention(one, BLOCK_SIZE, { window: shape.window })),
        ),
      });
    });
    const expected = attentionRef({ ...shape, q, keyCache, valueCache, sequences, blockSize: BLOCK_SIZE });
    assert.ok(maxDifference(actual, expected) < 2e-5, `${maxDifference(actual, expected)}`);
  });
}

/** Cache of that type: attention over its decoded values. Blocks side by side are multiplied with rounded queries. */
for (const [type, blockTable, bound] of [
  ["q8_0", SCATTERED, 2e-5],
  ["q8_0", CONTIGUOUS, 2e-2],
  ["f16", SCATTERED, 2e-5],
  ["f16", CONTIGUOUS, 2e-3],
] as const) {
  for (const headDim of [32, 64, 128]) {
    const where = blockTable === CONTIGUOUS ? "side by side" : "scattered";
    test(`recordAttention() reads a cache of ${type}, heads of ${headDim}, blocks ${where}`, async () => {
      const sequences = [sequence(0, 1, 90, blockTable), sequence(1, 33, 130, blockTable)];
      const shape = { numHeads: 4, numKvHeads: 2, headDim, scale: 1 / Math.sqrt(headDim) };
      const width = shape.numKvHeads * headDim;
      const q = randomFloats(34 * shape.numHeads * headDim, 15).map((value) => value * 4);
      const [keys, values] = [16, 17].map((seed) => store(type, randomFloats(NUM_SLOTS * width, seed)));
      assert.ok(keys && values);
      const actual = await runOp((graph) => {
        const flat = graph.input("f32", [34, shape.numHeads * headDim], q);
        const spans = sequences.map((one) => planAttention(one, BLOCK_SIZE));
        return recordAttention(graph, {
          ...shape,
          softCap: undefined,
          q: { ...flat, shape: [34, shape.numHeads, headDim] },
          keyCache: graph.input(type, [NUM_SLOTS, width], keys.stored),
          valueCache: graph.input(type, [NUM_SLOTS, width], values.stored),
          spans: recordSpans(graph, spans),
        });
      });
      const cache = { keyCache: keys.meant, valueCache: values.meant };
      const expected = attentionRef({ ...shape, q, ...cache, sequences, blockSize: BLOCK_SIZE });
      assert.ok(maxDifference(actual, expected) < bound, `${maxDifference(actual, expected)}`);
    });
  }
}

function store(type: "q8_0" | "f16", values: Float32Array): { stored: Uint8Array | Uint16Array; meant: Float32Array } {
  if (type === "q8_0") {
    const stored = quantizeRowsRef("q8_0", values);
    return { stored, meant: dequantizeRowsRef("q8_0", stored) };
  }
  const stored = Uint16Array.from(values, numberToFp16);
  return { stored, meant: Float32Array.from(stored, fp16ToNumber) };
}

test("recordAttention() refuses a q8_0 cache of heads that are no whole blocks", async () => {
  const run = runOp((graph) => {
    const flat = graph.input("f32", [1, 96], new Float32Array(96));
    const cache = graph.input("q8_0", [16, 32], new Uint8Array(16 * 34));
    const spans = recordSpans(graph, [planAttention(sequence(0, 1, 1, CONTIGUOUS), BLOCK_SIZE)]);
    return recordAttention(graph, {
      ...HEADS,
      softCap: undefined,
      q: { ...flat, shape: [1, 6, 16] },
      keyCache: cache,
      valueCache: cache,
      spans,
    });
  });
  await assert.rejects(run, /q8_0: expected rows of a multiple of 32, got 16/);
});

test("recordAttention() refuses spans that leave tokens out", async () => {
  const run = runOp((graph) => {
    const flat = graph.input("f32", [2, 96], new Float32Array(192));
    const cache = graph.input("f32", [16, 32], new Float32Array(512));
    const spans = recordSpans(graph, [planAttention(sequence(0, 1, 1, CONTIGUOUS.subarray(0, 0)), BLOCK_SIZE)]);
    return recordAttention(graph, {
      ...HEADS,
      softCap: undefined,
      q: { ...flat, shape: [2, 6, 16] },
      keyCache: cache,
      valueCache: cache,
      spans,
    });
  });
  await assert.rejects(run, /spans cover 1 of 2 tokens/);
});
