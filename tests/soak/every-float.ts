/**
 * Every float that the kernel of wire/assembly writes, from 10^-4 to below 10^8 with both signs (669 million): written as
 * ECMA-262 Number::toString writes it, and read back as the same bits. A stride that shares no factor with their number visits
 * all of them, and spreads a run that ends early over all of them. All take about 25 minutes.
 */
import assert from "node:assert/strict";
import { bitsOf, expectedText, readAll, writeAll } from "./floats.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

export const everyFloatSoak: Soak = { name: "every-float", run };

/** Bits of the least float from 10^-4 on, and of 10^8. */
const FIRST = 0x38d1b718;
const END = 0x4cbebc20;
const NUM_FLOATS: number = 2 * (END - FIRST);
/** A prime. */
const STRIDE = 1_000_003;
const FLOATS_PER_ROUND = 50_000;

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  let numDone = 0;
  let position = seed % NUM_FLOATS;
  while (numDone < NUM_FLOATS && performance.now() < deadlineMs) {
    const bits = new Uint32Array(Math.min(FLOATS_PER_ROUND, NUM_FLOATS - numDone));
    for (let i = 0; i < bits.length; i++) {
      bits[i] = FIRST + (position >>> 1) + (position & 1) * 0x8000_0000;
      position = (position + STRIDE) % NUM_FLOATS;
    }
    const floats = new Float32Array(bits.buffer);
    const texts = writeAll(floats);
    assert.deepEqual(texts, Array.from(floats, expectedText));
    assert.deepEqual(bitsOf(readAll(texts)), bits);
    numDone += bits.length;
  }
  return { floats: numDone, ofFloats: NUM_FLOATS };
}
