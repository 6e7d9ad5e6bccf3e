import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesElements } from "../core/bytes-tensor.ts";
import type { Tensor } from "../core/tensor.ts";
import { classify } from "./classification.ts";

function tensor(datatype: Tensor["datatype"], shape: number[], values: ArrayBufferView): Tensor {
  return { name: "Y", datatype, shape, data: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}

function classesOf(output: Tensor, count: number, isBatching = false): string[] {
  const result = classify(output, count, isBatching, (_, index) => ["zero", "one"][index]);
  return bytesElements(result).map((bytes) => Buffer.from(bytes).toString());
}

test("classify() gives the best of each batch element, with labels where there are any", () => {
  const output = tensor("FP32", [2, 3], Float32Array.of(-1.4375, 8.25, 1.3125, 4.3125, 6.375, -5.4375));
  assert.deepEqual(classesOf(output, 2, true), ["8.250000:1:one", "1.312500:2", "6.375000:1:one", "4.312500:0:zero"]);
  assert.deepEqual(classify(output, 9, true, () => undefined).shape, [2, 3]);
});

const VALUES: [Tensor["datatype"], ArrayBufferView, string[]][] = [
  [
    "FP32",
    Float32Array.of(1, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
    ["inf:1:one", "1.000000:0:zero", "-inf:2"],
  ],
  ["FP32", Float32Array.of(Number.NaN, 1, 1), ["1.000000:1:one", "1.000000:2", "nan:0:zero"]],
  ["FP32", Float32Array.of(0.0078125, 0.0234375, -0.0078125), ["0.023438:1:one", "0.007812:0:zero", "-0.007812:2"]],
  ["FP64", Float64Array.of(1e22, 0, -1), ["10000000000000000000000.000000:0:zero", "0.000000:1:one", "-1.000000:2"]],
  ["INT64", BigInt64Array.of(7n, 9007199254740993n, -1n), ["9007199254740993:1:one", "7:0:zero", "-1:2"]],
  ["UINT8", Uint8Array.of(3, 200, 3), ["200:1:one", "3:0:zero", "3:2"]],
];
for (const [datatype, values, expected] of VALUES) {
  test(`classify() prints ${datatype} as C does: ${expected[0]}`, () => {
    assert.deepEqual(classesOf(tensor(datatype, [3], values), 3), expected);
  });
}

test("classify() refuses datatypes without an order and outputs that are too large", () => {
  assert.throws(() => classesOf(tensor("BOOL", [1], Uint8Array.of(1)), 1), {
    message: "class result not available for output due to unsupported type 'BOOL'",
  });
  classesOf(tensor("UINT8", [1_000_000], new Uint8Array(1_000_000)), 1);
  assert.throws(() => classesOf(tensor("UINT8", [1_000_001], new Uint8Array(1_000_001)), 1), /too large/);
});

test("classify() refuses texts, whatever their bytes", () => {
  const output = tensor("BYTES", [2], Uint8Array.of(1, 0, 0, 0, 65, 1, 0, 0, 0, 66));
  assert.throws(() => classesOf(output, 1), /unsupported type 'BYTES'/);
});
