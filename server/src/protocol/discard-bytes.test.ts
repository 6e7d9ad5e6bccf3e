import assert from "node:assert/strict";
import { memoryUsage } from "node:process";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { discardBytes } from "./discard-bytes.ts";

const SIZE = 65_536;

test("discardBytes() gives back the memory of a buffer at once", async () => {
  discardBytes(Buffer.allocUnsafeSlow(SIZE));
  await sleep(200);
  const before = memoryUsage().arrayBuffers;
  for (let k = 0; k < 100; k++) discardBytes(Buffer.allocUnsafeSlow(SIZE));
  assert.ok(memoryUsage().arrayBuffers - before < 10 * SIZE);
});

test("discardBytes() leaves alone what shares its memory, and what is small", () => {
  const whole = Buffer.allocUnsafeSlow(2 * SIZE).fill(7);
  const small = Buffer.allocUnsafeSlow(100).fill(7);
  discardBytes(whole.subarray(SIZE));
  discardBytes(small);
  discardBytes(new Uint8Array(new SharedArrayBuffer(SIZE)));
  assert.equal(whole[2 * SIZE - 1], 7);
  assert.equal(small[99], 7);
});
