import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBfloat16, fromFloat16, toBfloat16, toFloat16 } from "./half-floats.ts";

const ALL = Uint16Array.from({ length: 65_536 }, (_, pattern) => pattern);

test("FP16 and BF16 patterns become numbers and the same patterns again", () => {
  const isNumber = (values: Float32Array) => ALL.filter((pattern) => !Number.isNaN(values[pattern]));
  const fp16 = isNumber(fromFloat16(ALL));
  assert.equal(fp16.length, 65_536 - 2 * 1023);
  assert.deepEqual(toFloat16(fromFloat16(fp16)), fp16);
  const bf16 = isNumber(fromBfloat16(ALL));
  assert.equal(bf16.length, 65_536 - 2 * 127);
  assert.deepEqual(toBfloat16(fromBfloat16(bf16)), bf16);
});

const KNOWN: readonly [value: number, fp16: number, bf16: number][] = [
  [0, 0, 0],
  [-0, 0x8000, 0x8000],
  [1, 0x3c00, 0x3f80],
  [-2, 0xc000, 0xc000],
  [65_504, 0x7bff, 0x4780],
  [65_519, 0x7bff, 0x4780],
  [65_520, 0x7c00, 0x4780],
  [Number.POSITIVE_INFINITY, 0x7c00, 0x7f80],
  [2 ** -24, 0x0001, 0x3380],
  [2 ** -25, 0x0000, 0x3300],
  [3 * 2 ** -25, 0x0002, 0x33c0],
  [1 + 2 ** -11, 0x3c00, 0x3f80],
  [1 + 3 * 2 ** -11, 0x3c02, 0x3f80],
  [1 + 2 ** -8, 0x3c04, 0x3f80],
  [1 + 3 * 2 ** -8, 0x3c0c, 0x3f82],
];
for (const [value, fp16, bf16] of KNOWN) {
  test(`${value} is rounded to the nearest, ties to even`, () => {
    assert.deepEqual([...toFloat16([value])], [fp16]);
    assert.deepEqual([...toBfloat16([value])], [bf16]);
  });
}

test("NaN stays NaN", () => {
  assert.ok(Number.isNaN(fromFloat16(toFloat16([Number.NaN]))[0]));
  assert.ok(Number.isNaN(fromBfloat16(toBfloat16([Number.NaN]))[0]));
});
