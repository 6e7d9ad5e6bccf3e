import assert from "node:assert/strict";
import { test } from "node:test";
import { bf16ToNumber, narrowToBf16, numberToBf16, widenBf16 } from "./bf16.ts";

test("numberToBf16() gives back every bfloat16 and rounds to the nearest", () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = bf16ToNumber(bits);
    assert.equal(
      Number.isNaN(value) ? Number.isNaN(bf16ToNumber(numberToBf16(value))) : numberToBf16(value) === bits,
      true,
    );
  }
  assert.equal(bf16ToNumber(numberToBf16(Math.PI)), 3.140625);
});

test("numberToBf16() rounds to the nearest, ties to even", () => {
  assert.equal(numberToBf16(1), 0x3f80);
  assert.equal(bf16ToNumber(numberToBf16(1 + 1 / 256)), 1);
  assert.equal(bf16ToNumber(numberToBf16(1 + 3 / 256)), 1 + 2 / 128);
  assert.equal(bf16ToNumber(numberToBf16(-3.140625)), -3.140625);
  assert.equal(numberToBf16(3.4e38), 0x7f80);
  assert.equal(numberToBf16(Number.NEGATIVE_INFINITY), 0xff80);
  assert.equal(numberToBf16(Number.NaN), 0x7fc0);
});

test("narrowToBf16() and widenBf16() convert each number as the others do, also into given memory", () => {
  const words = Uint32Array.from({ length: 2 ** 18 }, (_, i) => (i << 14) + (i % 3) - 1);
  const values = new Float32Array(words.buffer);
  const narrow = narrowToBf16(values);
  assert.ok(narrow.every((bits, i) => Number.isNaN(values[i]) || bits === numberToBf16(values[i] ?? 0)));
  assert.deepEqual(narrowToBf16(values.subarray(7, 9), new Uint16Array(2)), narrow.subarray(7, 9));
  const all = Uint16Array.from({ length: 2 ** 16 }, (_, bits) => bits);
  assert.deepEqual([...widenBf16(all)], Array.from(all, bf16ToNumber));
  assert.deepEqual(widenBf16(all.subarray(3, 5), new Float32Array(2)), Float32Array.from([3, 4], bf16ToNumber));
});
