import assert from "node:assert/strict";
import { test } from "node:test";
import { recordSpans } from "../attention/attention.ggml.ts";
import { planAttention } from "../attention/attention-span.ts";
import { maxDifference, randomFloats, runOp } from "../testing/run-op.ts";
import { recordBiasedAttention, recordTableBias } from "./biased-attention.ggml.ts";
import { biasedAttention } from "./biased-attention.ref.ts";
import { bucketsOf, distanceBucket } from "./distance-buckets.ts";

const SHAPE = { numHeads: 4, numKvHeads: 2, headDim: 6, scale: 0.7 };
const RULES = { numBuckets: 8, maxDistance: 20 };

for (const isCausal of [true, false]) {
  for (const alwaysGathers of [true, false]) {
    const how = `${isCausal ? "causal" : "both sides"}, ${alwaysGathers ? "gathered" : "in place"}`;
    test(`recordBiasedAttention() adds the table's number of each pair: ${how}`, async () => {
      const { numHeads, numKvHeads, headDim } = SHAPE;
      const [numQueries, numKeys] = isCausal ? [3, 9] : [9, 9];
      const q = randomFloats(numQueries * numHeads * headDim, 1);
      const keys = randomFloats(numKeys * numKvHeads * headDim, 2);
      const values = randomFloats(numKeys * numKvHeads * headDim, 3);
      const table = randomFloats(RULES.numBuckets * numHeads, 4);
      const buckets = bucketsOf(numQueries, numKeys, { ...RULES, isCausal });
      const blockTable = Int32Array.from({ length: numKeys }, (_, i) => i);
      const sequence = { queryStart: 0, queryLength: numQueries, contextLength: numKeys, blockTable };
      const actual = await runOp((graph) => {
        const rows = graph.input("f32", [numQueries, numHeads * headDim], q);
        const [recorded] = recordSpans(graph, [planAttention(sequence, 1, { isCausal, alwaysGathers })]);
        assert.ok(recorded !== undefined);
        const bias = recordTableBias(
          graph,
          recorded,
          graph.input("f32", [RULES.numBuckets, numHeads], table),
          graph.input("i32", [buckets.length], buckets),
        );
        return recordBiasedAttention(graph, {
          ...SHAPE,
          q: { ...rows, shape: [numQueries, numHeads, headDim] },
          keyCache: graph.input("f32", [numKeys, numKvHeads * headDim], keys),
          valueCache: graph.input("f32", [numKeys, numKvHeads * headDim], values),
          spans: [{ ...recorded, bias }],
        });
      });
      const bias = new Float32Array(numHeads * buckets.length).map(
        (_, i) => table[(buckets[i % buckets.length] ?? 0) * numHeads + Math.floor(i / buckets.length)] ?? 0,
      );
      const expected = biasedAttention({ ...SHAPE, q, keys, values, bias, isCausal });
      assert.ok(maxDifference(actual, expected) < 1e-5, `off by ${maxDifference(actual, expected)}`);
    });
  }
}

test("distanceBucket() has a bucket for each small distance, and one for all beyond the largest", () => {
  const causal = { numBuckets: 32, maxDistance: 128, isCausal: true };
  assert.deepEqual(
    [0, -1, -15, -16, -20, -127, -1000, 5].map((relative) => distanceBucket(relative, causal)),
    [0, 1, 15, 16, 17, 31, 31, 0],
  );
  const both = { ...causal, isCausal: false };
  assert.deepEqual(
    [0, -7, -8, -500, 1, 7, 500].map((relative) => distanceBucket(relative, both)),
    [0, 7, 8, 15, 17, 23, 31],
  );
});
