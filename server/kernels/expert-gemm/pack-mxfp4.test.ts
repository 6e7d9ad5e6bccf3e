import assert from "node:assert/strict";
import { test } from "node:test";
import { packMxfp4, packMxfp4Scales } from "./pack-mxfp4.ts";

test("packMxfp4() puts the codes of two fragments into each word", () => {
  const block = new Uint8Array(16);
  // Inputs 2, 10, 18 and 26 are -6 (code 15); their neighbours 0.5 (code 1).
  for (const byte of [1, 5, 9, 13]) block[byte] = 0x1f;
  const words = new Uint32Array(packMxfp4(block).buffer);
  const minusSix = 0x8000 | 0x1c0 | 0x1000 | 0x38 | 0x200 | 0x7 | 0x4000 | 0x2000 | 0xc00;
  const half = 0x40 | 0x8 | 0x1 | 0x400;
  assert.deepEqual([...words], [0, minusSix + half * 2 ** 16, 0, 0]);
});

test("packMxfp4Scales() refuses scales that bf16 cannot hold with the codes", () => {
  assert.deepEqual([...packMxfp4Scales(Uint8Array.of(0, 127, 191))], [63, 190, 254]);
  assert.throws(() => packMxfp4Scales(Uint8Array.of(192)), /an MXFP4 scale of 2\^65: expected at most 2\^64/);
});
