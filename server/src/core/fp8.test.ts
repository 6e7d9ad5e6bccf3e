import assert from "node:assert/strict";
import { test } from "node:test";
import { fp8Levels, fp8ToNumber, narrowToFp8, numberToFp8, widenFp8 } from "./fp8.ts";

test("fp8ToNumber() knows ends and middle of the range", () => {
  const cases = [
    [0x00, 0],
    [0x01, 2 ** -9],
    [0x08, 2 ** -6],
    [0x38, 1],
    [0xb8, -1],
    [0x7e, 448],
  ] as const;
  for (const [bits, expected] of cases) assert.equal(fp8ToNumber(bits), expected);
  assert.ok(Number.isNaN(fp8ToNumber(0x7f)));
});

test("numberToFp8() gives back the bits of each number", () => {
  for (const [bits, value] of fp8Levels().entries()) {
    if (!Number.isNaN(value)) assert.equal(numberToFp8(value), bits);
  }
});

test("numberToFp8() rounds to the nearest, ties to even, and to the largest", () => {
  const cases = [
    [1.0624, 1],
    [1.0625, 1],
    [1.1875, 1.25],
    [1.94, 2],
    [17, 16],
    [19, 20],
    [15.6, 16],
    [0.001, 2 ** -9],
    [0.0009, 0],
    [1000, 448],
    [-1000, -448],
    [2 ** -10, 0],
    [2 ** -10 * 1.01, 2 ** -9],
  ] as const;
  for (const [value, expected] of cases) assert.equal(fp8ToNumber(numberToFp8(value)), expected);
});

test("narrowToFp8() and widenFp8() do the same for many", () => {
  const values = Float32Array.of(0.3, -17, 1e9, 0.001, -0, Number.NaN);
  const bits = narrowToFp8(values);
  assert.deepEqual(bits, Uint8Array.from(values, numberToFp8));
  assert.deepEqual(widenFp8(bits), Float32Array.from(bits, fp8ToNumber));
});
