import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf } from "./ffi.ts";
import { adviseHugePages } from "./huge-pages.ts";

test("adviseHugePages() leaves what the memory holds as it is, wherever it begins", () => {
  const bytes = new Uint8Array(8 << 20).fill(7);
  for (const [offset, length] of [
    [0, bytes.byteLength],
    [1, 4096],
    [100, 10],
  ] as const) {
    adviseHugePages(addressOf(bytes) + BigInt(offset), length);
  }
  assert.ok(bytes.every((byte) => byte === 7));
});
