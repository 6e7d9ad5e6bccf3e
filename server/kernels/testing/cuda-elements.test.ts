import assert from "node:assert/strict";
import { test } from "node:test";
import { bf16ToNumber, fromElements, numberToBf16, rounded, toElements } from "./cuda-elements.ts";

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
