import assert from "node:assert/strict";
import { test } from "node:test";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordCrossAttention } from "./cross-attention.ggml.ts";
import { crossAttention } from "./cross-attention.ref.ts";

const SHAPE = { numHeads: 4, numKvHeads: 2, headDim: 8, scale: 0.4 };
const WIDTH = SHAPE.numHeads * SHAPE.headDim;
const KV_WIDTH = SHAPE.numKvHeads * SHAPE.headDim;

test("recordCrossAttention() reads for each sequence the rows of its own encoder", async () => {
  const parts = [
    { queryStart: 0, queryLength: 3, numKeys: 7 },
    { queryStart: 3, queryLength: 1, numKeys: 2 },
  ].map((part, i) => ({
    ...part,
    keys: randomFloats(part.numKeys * KV_WIDTH, 10 + i),
    values: randomFloats(part.numKeys * KV_WIDTH, 20 + i),
  }));
  for (const chosen of [parts, parts.slice(0, 1)]) {
    const numTokens = chosen.reduce((sum, { queryLength }) => sum + queryLength, 0);
    const q = randomFloats(numTokens * WIDTH, 5);
    const actual = await runOp((graph) =>
      recordCrossAttention(graph, {
        ...SHAPE,
        q: graph.input("f32", [numTokens, WIDTH], q),
        spans: chosen.map(({ numKeys, keys, values, ...span }) => ({
          ...span,
          keys: graph.input("f32", [numKeys, KV_WIDTH], keys),
          values: graph.input("f32", [numKeys, KV_WIDTH], values),
        })),
      }),
    );
    const expected = chosen.flatMap(({ queryStart, queryLength, keys, values }) => {
      const own = q.subarray(queryStart * WIDTH, (queryStart + queryLength) * WIDTH);
      return [...crossAttention({ ...SHAPE, q: own, keys, values })];
    });
    assert.ok(maxDifference(actual, expected) < 1e-5, `off by ${maxDifference(actual, expected)}`);
  }
});

test("recordCrossAttention() refuses spans that leave tokens out", async () => {
  const run = runOp((graph) => {
    const memory = graph.input("f32", [2, KV_WIDTH], new Float32Array(2 * KV_WIDTH));
    const q = graph.input("f32", [2, WIDTH], new Float32Array(2 * WIDTH));
    return recordCrossAttention(graph, {
      ...SHAPE,
      q,
      spans: [{ queryStart: 0, queryLength: 1, keys: memory, values: memory }],
    });
  });
  await assert.rejects(run, /spans cover 1 of 2 tokens/);
});
