import assert from "node:assert/strict";
import { test } from "node:test";
import { kvBytesPerToken } from "./kv-bytes.ts";

test("kvBytesPerToken() counts keys and values of all layers", () => {
  const blockSize = 32;
  assert.equal(blockSize * kvBytesPerToken({ numLayers: 2, numKvHeads: 2, headDim: 16 }, 2), 2 * 2 * 2 * 16 * 32 * 2);
});
