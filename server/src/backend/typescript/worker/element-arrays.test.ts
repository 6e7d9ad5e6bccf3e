import assert from "node:assert/strict";
import { test } from "node:test";
import { datatypeOfArray, encodeElements, floatsOf } from "./element-arrays.ts";

test("`encodeElements()` takes each datatype's array, numbers, and one value alone", () => {
  const cases = [
    ["INT32", Int32Array.of(1, -2), [1, 0, 0, 0, 254, 255, 255, 255]],
    ["INT32", [1], [1, 0, 0, 0]],
    ["INT16", 258, [2, 1]],
    ["INT64", [1, 2n], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]],
    ["BOOL", [true, false], [1, 0]],
    ["FP16", [1], [0, 0x3c]],
    ["FP16", Float32Array.of(-2), [0, 0xc0]],
    ["FP16", Uint16Array.of(0x3c00), [0, 0x3c]],
    ["BF16", [1], [0x80, 0x3f]],
    ["BYTES", ["ab", Uint8Array.of(9)], [2, 0, 0, 0, 97, 98, 1, 0, 0, 0, 9]],
    ["BYTES", "c", [1, 0, 0, 0, 99]],
  ] as const;
  for (const [datatype, given, expected] of cases) {
    assert.deepEqual([...encodeElements(datatype, given, "output 'Y'").data], expected, `${datatype} ${String(given)}`);
  }
});

test("`encodeElements()` says what a tensor takes when something else comes", () => {
  const cases = [
    [
      "FP32",
      Float64Array.of(1),
      /^TypeError: output 'Y' is FP32 and takes a Float32Array or an array, got Float64Array$/,
    ],
    ["INT32", ["1"], /got a string at \[0\]$/],
    ["INT32", undefined, /got undefined at \[0\]$/],
    ["BYTES", [1], /is BYTES and takes an array of strings or Uint8Arrays, got Array$/],
    ["INT8", null, /got null$/],
  ] as const;
  for (const [datatype, given, expected] of cases) {
    assert.throws(
      () => encodeElements(datatype, given, "output 'Y'"),
      (error) => expected.test(String(error)),
      String(given),
    );
  }
});

test("BF16 is rounded to the nearest, ties to even, and keeps NaN", () => {
  const bits = (value: number): number => {
    const { data } = encodeElements("BF16", [value], "x");
    return (data[0] ?? 0) + 256 * (data[1] ?? 0);
  };
  assert.deepEqual(
    [1, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -8 + 2 ** -16].map(bits),
    [0x3f80, 0x3f80, 0x3f82, 0x3f81],
  );
  assert.deepEqual([Number.NaN, Number.POSITIVE_INFINITY, 3.4e38].map(bits), [0x7fc0, 0x7f80, 0x7f80]);
});

test("`floatsOf()` gives numbers of halves and integers", () => {
  assert.deepEqual([...floatsOf("FP16", Uint16Array.of(0x3c00, 0xc000))], [1, -2]);
  assert.deepEqual([...floatsOf("BF16", Uint16Array.of(0x3f80))], [1]);
  assert.deepEqual([...floatsOf("INT64", BigInt64Array.of(-3n))], [-3]);
});

test("`datatypeOfArray()` knows what an array stands for, and that numbers stand for nothing", () => {
  const cases = [
    [new Float32Array(1), "FP32"],
    [new Uint8Array(1), "UINT8"],
    [new Uint16Array(1), "UINT16"],
    [new BigUint64Array(1), "UINT64"],
    [["a"], "BYTES"],
    [[true], "BOOL"],
    [[1], undefined],
    [1, undefined],
  ] as const;
  for (const [given, expected] of cases) assert.equal(datatypeOfArray(given), expected, String(expected));
});
