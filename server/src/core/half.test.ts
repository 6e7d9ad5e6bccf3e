import assert from "node:assert/strict";
import { test } from "node:test";
import { halfToNumber, narrowToHalves, numberToHalf, widenHalves } from "./half.ts";

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
  test(`halfToNumber() reads 0x${bits.toString(16)} as ${value}, numberToHalf() writes it`, () => {
    assert.equal(halfToNumber(bits), value);
    assert.equal(numberToHalf(value), bits);
  });
}

test("numberToHalf() gives back every half", () => {
  const changed: number[] = [];
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = halfToNumber(bits);
    if (!Number.isNaN(value) && numberToHalf(value) !== bits) changed.push(bits);
  }
  assert.deepEqual(changed, []);
  assert.ok(Number.isNaN(halfToNumber(numberToHalf(Number.NaN))));
});

test("numberToHalf() rounds to the nearest, ties to even", () => {
  assert.equal(numberToHalf(1 + 2 ** -11), 0x3c00);
  assert.equal(numberToHalf(1 + 3 * 2 ** -11), 0x3c02);
  assert.equal(numberToHalf(1 + 2 ** -11 + 2 ** -20), 0x3c01);
  assert.equal(numberToHalf(2.5 * 2 ** -24), 0x0002);
  assert.equal(numberToHalf(3.5 * 2 ** -24), 0x0004);
  assert.equal(numberToHalf(65519), 0x7bff);
  assert.equal(numberToHalf(65520), 0x7c00);
});

const OFFSETS = [0, -1, 1, 0xfff, 0x1000, 0x1001];

test("narrowToHalves() rounds each number as numberToHalf() does", () => {
  const words = new Uint32Array(2 ** 18);
  // All halves, the middles between them, and what lies beside both.
  for (let i = 0; i < words.length; i++) words[i] = (i << 14) + (OFFSETS[i % OFFSETS.length] ?? 0);
  const values = new Float32Array(words.buffer);
  const expected = Uint16Array.from(values, numberToHalf);
  assert.deepEqual(narrowToHalves(values), expected);
  assert.deepEqual(narrowToHalves(values.subarray(7, 9)), expected.subarray(7, 9));
});

test("widenHalves() reads every half as halfToNumber() does", () => {
  const halves = Uint16Array.from({ length: 2 ** 16 }, (_, bits) => bits);
  assert.deepEqual(widenHalves(halves), Float32Array.from(halves, halfToNumber));
});
