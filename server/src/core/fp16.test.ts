import assert from "node:assert/strict";
import { test } from "node:test";
import { fp16ToNumber, narrowToFp16, numberToFp16, widenFp16 } from "./fp16.ts";

const KNOWN: readonly (readonly [bits: number, value: number])[] = [
  [0x0000, 0],
  [0x3c00, 1],
  [0xc100, -2.5],
  [0x7bff, 65504],
  [0x0001, 2 ** -24],
  [0x03ff, 1023 * 2 ** -24],
  [0x0400, 2 ** -14],
  [0x7c00, Number.POSITIVE_INFINITY],
  [0xfc00, Number.NEGATIVE_INFINITY],
];

for (const [bits, value] of KNOWN) {
  test(`fp16ToNumber() reads 0x${bits.toString(16)} as ${value}, numberToFp16() writes it`, () => {
    assert.equal(fp16ToNumber(bits), value);
    assert.equal(numberToFp16(value), bits);
  });
}

test("numberToFp16() gives back every half", () => {
  const changed: number[] = [];
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = fp16ToNumber(bits);
    if (!Number.isNaN(value) && numberToFp16(value) !== bits) changed.push(bits);
  }
  assert.deepEqual(changed, []);
  assert.ok(Number.isNaN(fp16ToNumber(numberToFp16(Number.NaN))));
});

test("numberToFp16() rounds to the nearest, ties to even", () => {
  assert.equal(numberToFp16(1 + 2 ** -11), 0x3c00);
  assert.equal(numberToFp16(1 + 3 * 2 ** -11), 0x3c02);
  assert.equal(numberToFp16(1 + 2 ** -11 + 2 ** -20), 0x3c01);
  assert.equal(numberToFp16(2.5 * 2 ** -24), 0x0002);
  assert.equal(numberToFp16(3.5 * 2 ** -24), 0x0004);
  assert.equal(numberToFp16(65519), 0x7bff);
  assert.equal(numberToFp16(65520), 0x7c00);
});

const OFFSETS = [0, -1, 1, 0xfff, 0x1000, 0x1001];

test("narrowToFp16() rounds each number as numberToFp16() does", () => {
  const words = new Uint32Array(2 ** 18);
  // All FP16 values, their midpoints, and the neighbours of both.
  for (let i = 0; i < words.length; i++) words[i] = (i << 14) + (OFFSETS[i % OFFSETS.length] ?? 0);
  const values = new Float32Array(words.buffer);
  const expected = Uint16Array.from(values, numberToFp16);
  assert.deepEqual(narrowToFp16(values), expected);
  assert.deepEqual(narrowToFp16(values.subarray(7, 9)), expected.subarray(7, 9));
});

test("widenFp16() reads every half as fp16ToNumber() does", () => {
  const halves = Uint16Array.from({ length: 2 ** 16 }, (_, bits) => bits);
  assert.deepEqual(widenFp16(halves), Float32Array.from(halves, fp16ToNumber));
});
