import assert from "node:assert/strict";
import { test } from "node:test";
import { uniformAt } from "../../src/engine/sample/random.ts";
import { sampleRef, uniformRef } from "./sample.ref.ts";
import {
  COUNT_SEEN,
  NEUTRAL_SAMPLE_PARAMS,
  SAMPLE_PARAMS_BYTES,
  type SampleParams,
  writeSampleParams,
} from "./sample-params.ts";

const PARAMS: SampleParams = { ...NEUTRAL_SAMPLE_PARAMS, seedLow: 1, seedHigh: 2 };

test("uniformRef() gives the numbers that the engine draws by", () => {
  for (let i = 0; i < 100; i++) assert.equal(uniformRef(i * 77777, -i * 3, i), uniformAt(i * 77777, -i * 3, i));
});

test("sampleRef() keeps to what the request allows", () => {
  const logits = Float32Array.of(1, 5, 4, 3, Number.NaN, 2);
  const seen = (params: Partial<SampleParams>, more: object = {}): number[] => {
    const found = new Set<number>();
    for (let index = 0; index < 300; index++) {
      found.add(sampleRef({ logits, params: { ...PARAMS, ...params, index }, ...more }).token);
    }
    return [...found].sort((a, b) => a - b);
  };
  assert.deepEqual(seen({ isGreedy: true }), [1]);
  assert.deepEqual(seen({ topK: 2 }), [1, 2]);
  assert.deepEqual(seen({ topP: 0.6 }), [1]);
  assert.deepEqual(seen({ minP: 0.1 }), [1, 2, 3]);
  assert.deepEqual(seen({}), [0, 1, 2, 3, 5]);
  assert.deepEqual(seen({ topK: 1 }, { mask: Uint32Array.of(0b1101) }), [2]);
  assert.deepEqual(seen({ topK: 1 }, { bias: Float32Array.of(9, 0, 0, 0, 0, 0) }), [0]);
  const counts = Uint16Array.of(0, COUNT_SEEN + 2, 0, 0, 0, 0);
  assert.deepEqual(seen({ topK: 1, frequencyPenalty: 2 }, { counts }), [2]);
});

test("writeSampleParams() leaves zeros for a padded row and overwrites nothing beside its row", () => {
  const view = new DataView(new ArrayBuffer(3 * SAMPLE_PARAMS_BYTES));
  for (const row of [0, 1, 2]) writeSampleParams(view, row, PARAMS);
  assert.equal(view.getInt32(SAMPLE_PARAMS_BYTES + 56, true), 1);
  writeSampleParams(view, 1, undefined);
  assert.equal(view.getInt32(SAMPLE_PARAMS_BYTES + 56, true), 0);
  assert.equal(view.getInt32(56, true), 1);
  assert.equal(view.getInt32(2 * SAMPLE_PARAMS_BYTES + 44, true), -1);
});
