import assert from "node:assert/strict";
import { test } from "node:test";
import { convertElements } from "../../src/device/cpu/convert-elements.ts";
import { openGgml } from "../../src/native/ggml/ggml.ts";
import { maxDifference, randomFloats } from "../testing/run-op.ts";
import { dequantizeRowsRef, type QuantizedType, quantizeRowsRef } from "./quantize-rows.ref.ts";

const TYPES: readonly QuantizedType[] = ["q8_0", "q4_0", "q4_1"];
/** Half of the distance between two levels, as a share of the largest magnitude; q4_0 lacks one level at an end. */
const STEP_SHARE: Readonly<Record<QuantizedType, number>> = { q8_0: 0.5 / 127, q4_0: 1 / 8, q4_1: 0.5 * (2 / 15) };

/** Scales below 2^-14 are multiples of 2^-24, and up to 127 times their rounding counts. */
const SUBNORMAL_SLACK = 127 * 2 ** -25;

/** Blocks of every size of number that weights have, and of zeros, of one value, of one sign. */
function weights(): Float32Array {
  const values = randomFloats(64 * 32, 3);
  for (const [i, value] of values.entries()) values[i] = value * 2 ** -(i >>> 7);
  values.fill(0, 0, 32);
  values.fill(0.25, 32, 64);
  for (let i = 64; i < 128; i++) values[i] = Math.abs(values[i] ?? 0) * (i < 96 ? 1 : -1);
  return values;
}

for (const type of TYPES) {
  test(`quantizeRowsRef() and ggml store the same bytes of ${type}`, () => {
    const values = weights();
    const native = convertElements(openGgml(), "f32", type, new Uint8Array(values.buffer));
    assert.deepEqual(native, quantizeRowsRef(type, values));
  });

  test(`dequantizeRowsRef() and ggml read the same numbers from ${type}`, () => {
    const bytes = quantizeRowsRef(type, weights());
    const native = new Float32Array(convertElements(openGgml(), type, "f32", bytes).buffer);
    assert.equal(maxDifference(dequantizeRowsRef(type, bytes), native), 0);
  });

  test(`quantizeRowsRef() keeps ${type} within one step`, () => {
    const values = weights();
    const kept = dequantizeRowsRef(type, quantizeRowsRef(type, values));
    const worst = values.map((value, i) => {
      const block = values.subarray(i - (i % 32), i - (i % 32) + 32);
      const largest = block.reduce((most, other) => Math.max(most, Math.abs(other)), 0);
      // Scale and minimum are FP16: another 2^-10 of the largest.
      return Math.abs(value - (kept[i] ?? Number.NaN)) - largest * (STEP_SHARE[type] + 2 ** -10);
    });
    assert.ok(Math.max(...worst) <= SUBNORMAL_SLACK, `a weight is off by ${Math.max(...worst)} more than a step`);
  });
}

test("convertElements() refuses what is no whole number of blocks", () => {
  assert.throws(
    () => convertElements(openGgml(), "f32", "q8_0", new Uint8Array(31 * 4)),
    /whole blocks of f32 and q8_0/,
  );
  assert.throws(() => convertElements(openGgml(), "q4_1", "f32", new Uint8Array(30)), /whole blocks of q4_1 and f32/);
});
