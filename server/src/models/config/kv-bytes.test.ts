import assert from "node:assert/strict";
import { test } from "node:test";
import { kvBytesPerToken } from "./kv-bytes.ts";

const LAYER = { window: undefined, rope: 0, mlp: "dense" } as const;

test("kvBytesPerToken() counts keys and values of all layers", () => {
  const blockSize = 32;
  assert.equal(
    blockSize * kvBytesPerToken({ layers: [LAYER, LAYER], numKvHeads: 2, headDim: 16 }, 2),
    2 * 2 * 2 * 16 * 32 * 2,
  );
});

test("kvBytesPerToken() counts no keys of layers with a state", () => {
  const layers = [LAYER, { ...LAYER, isRecurrent: true }, LAYER];
  assert.equal(kvBytesPerToken({ layers, numKvHeads: 1, headDim: 8 }, 4), 2 * 2 * 8 * 4);
});

test("kvBytesPerToken() counts heads of layers, and shared keys once", () => {
  const layers = [LAYER, { ...LAYER, heads: { numKvHeads: 1, headDim: 32 } }, { ...LAYER, kvSource: 0 }];
  assert.equal(kvBytesPerToken({ layers, numKvHeads: 2, headDim: 8 }, 4), 2 * (16 + 32) * 4);
});
