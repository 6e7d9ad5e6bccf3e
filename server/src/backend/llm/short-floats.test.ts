import assert from "node:assert/strict";
import { test } from "node:test";
import { bfloatToNumber, halfToNumber, numberToBfloat, numberToHalf } from "./short-floats.ts";

test("numberToHalf() gives back every half, and the even neighbour of a number in the middle", () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = halfToNumber(bits);
    assert.equal(
      Number.isNaN(value) ? Number.isNaN(halfToNumber(numberToHalf(value))) : numberToHalf(value) === bits,
      true,
    );
  }
  const cases: [number, number][] = [
    [65_504, 0x7bff],
    [65_519.9, 0x7bff],
    [65_520, 0x7c00],
    [1 + 2 ** -11, 0x3c00],
    [1 + 3 * 2 ** -11, 0x3c02],
    [2 ** -25, 0],
    [1.5 * 2 ** -24, 2],
    [2047.5, 0x6800],
  ];
  for (const [value, bits] of cases) assert.equal(numberToHalf(value), bits, String(value));
});

test("numberToBfloat() gives back every bfloat16 and rounds to the nearest", () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = bfloatToNumber(bits);
    assert.equal(
      Number.isNaN(value) ? Number.isNaN(bfloatToNumber(numberToBfloat(value))) : numberToBfloat(value) === bits,
      true,
    );
  }
  assert.equal(bfloatToNumber(numberToBfloat(Math.PI)), 3.140625);
});
