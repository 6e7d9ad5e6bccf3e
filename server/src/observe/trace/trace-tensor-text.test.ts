import assert from "node:assert/strict";
import { test } from "node:test";
import { type Datatype, packBytesElements } from "@nereid/wire";
import { MAX_TRACED_ELEMENTS } from "../../core/limits.ts";
import { tensorText } from "./trace-tensor-text.ts";

function bytesOf(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

const CASES: readonly (readonly [datatype: Datatype, data: ArrayBufferView, text: string])[] = [
  ["BOOL", Uint8Array.of(0, 1), "0,1"],
  ["UINT8", Uint8Array.of(0, 255), "0,255"],
  ["UINT16", Uint16Array.of(1, 65_535), "1,65535"],
  ["UINT32", Uint32Array.of(1, 4_294_967_295), "1,4294967295"],
  ["UINT64", BigUint64Array.of(0n, 18_446_744_073_709_551_615n), "0,18446744073709551615"],
  ["INT8", Int8Array.of(-128, 127), "-128,127"],
  ["INT16", Int16Array.of(-32_768, 1), "-32768,1"],
  ["INT32", Int32Array.of(-1, 2), "-1,2"],
  ["INT64", BigInt64Array.of(-9_223_372_036_854_775_808n, 1n), "-9223372036854775808,1"],
  ["FP16", Uint16Array.of(0x3c00, 0xc000), "1,-2"],
  ["BF16", Uint16Array.of(0x3f80, 0xc000), "1,-2"],
  ["FP32", Float32Array.of(0.5, Number.NaN), "0.5,NaN"],
  ["FP64", Float64Array.of(0.1, -1e300), "0.1,-1e+300"],
  ["BYTES", packBytesElements([Buffer.from("a"), Buffer.from("ż")]), '"a","ż"'],
];

for (const [datatype, data, text] of CASES) {
  test(`\`tensorText()\` writes ${datatype}, aligned or not`, () => {
    const shifted = new Uint8Array(data.byteLength + 1).subarray(1);
    shifted.set(bytesOf(data));
    const shown = tensorText({ name: "T", datatype, shape: [2, 1], data: shifted });
    assert.deepEqual(shown, { name: "T", data: text, shape: "2,1", dtype: datatype });
  });
}

test("`tensorText()` cuts off a large tensor and says so", () => {
  const count = MAX_TRACED_ELEMENTS + 1;
  const shown = tensorText({ name: "T", datatype: "UINT8", shape: [count], data: new Uint8Array(count) });
  assert.equal(shown.data.length, 2 * MAX_TRACED_ELEMENTS - 1);
  assert.equal(shown.truncated, true);
});

test("`tensorText()` does not throw when data is shorter than the shape says", () => {
  assert.equal(tensorText({ name: "T", datatype: "INT32", shape: [4], data: new Uint8Array(5) }).data, "0");
  assert.equal(tensorText({ name: "T", datatype: "BYTES", shape: [4], data: new Uint8Array(5) }).data, "");
});
