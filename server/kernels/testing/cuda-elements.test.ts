import assert from "node:assert/strict";
import { test } from "node:test";
import {
  bf16ToNumber,
  e4m3ToNumber,
  fromElements,
  numberToBf16,
  numberToE4m3,
  rounded,
  toElements,
} from "./cuda-elements.ts";

test("numberToE4m3() gives back the bits of every number that e4m3 has", () => {
  for (let bits = 0; bits < 256; bits++) {
    const value = e4m3ToNumber(bits);
    const expected = Number.isNaN(value) ? 0x7f : bits;
    assert.equal(numberToE4m3(value), expected, `bits ${bits}`);
  }
});

test("numberToE4m3() rounds to the nearest, ties to even, and saturates", () => {
  const cases: [number, number][] = [
    [1.0625, 1],
    [1.1875, 1.25],
    [17, 16],
    [19, 20],
    [1000, 448],
    [-1000, -448],
    [0.001, 2 ** -9],
    [0.0009, 0],
    [15.6, 16],
  ];
  for (const [value, expected] of cases) assert.equal(e4m3ToNumber(numberToE4m3(value)), expected, `${value}`);
});

test("numberToBf16() rounds to the nearest, ties to even", () => {
  assert.equal(numberToBf16(1), 0x3f80);
  assert.equal(bf16ToNumber(numberToBf16(1 + 1 / 256)), 1);
  assert.equal(bf16ToNumber(numberToBf16(1 + 3 / 256)), 1 + 2 / 128);
  assert.equal(bf16ToNumber(numberToBf16(-3.140625)), -3.140625);
  assert.ok(Number.isNaN(bf16ToNumber(numberToBf16(Number.NaN))));
});

test("rounded() keeps what each type can hold", () => {
  const values = Float32Array.of(0.5, -2, 1.75);
  for (const type of ["f32", "bf16", "f16", "e4m3"] as const) {
    assert.deepEqual(rounded(type, values), values);
    assert.deepEqual(fromElements(type, toElements(type, values)), values);
  }
});
