import assert from "node:assert/strict";
import { test } from "node:test";
import type { Datatype } from "@nereid/wire";
import { elementsOf, type InputElements, tensor } from "./tensor.ts";

const samples: { [D in Datatype]: InputElements[D] } = {
  BOOL: Uint8Array.of(1, 0),
  UINT8: Uint8Array.of(1, 255),
  UINT16: Uint16Array.of(1, 65535),
  UINT32: Uint32Array.of(1, 2 ** 32 - 1),
  UINT64: BigUint64Array.of(1n, 2n ** 64n - 1n),
  INT8: Int8Array.of(1, -128),
  INT16: Int16Array.of(1, -32768),
  INT32: Int32Array.of(1, -(2 ** 31)),
  INT64: BigInt64Array.of(1n, -(2n ** 63n)),
  FP16: Uint16Array.of(0x3c00, 0xbc00),
  FP32: Float32Array.of(1, -0.5),
  FP64: Float64Array.of(1, 1e-300),
  BF16: Uint16Array.of(0x3f80, 0xbf80),
  BYTES: [Uint8Array.of(255), new Uint8Array(0)],
};

for (const [datatype, elements] of Object.entries(samples) as [Datatype, InputElements[Datatype]][]) {
  test(`elementsOf() gives the ${datatype} that tensor() took, aligned or not`, () => {
    const { data } = tensor("x", datatype, [2], elements);
    const buffer = new Uint8Array(data.length + 1);
    buffer.set(data, 1);
    assert.deepEqual(elementsOf(datatype, data), elements);
    assert.deepEqual(elementsOf(datatype, buffer.subarray(1)), elements);
  });
}

test("tensor() copies nothing and respects where a view begins", () => {
  const numbers = Int32Array.of(1, 2, 3);
  const { data } = tensor("x", "INT32", [2], numbers.subarray(1));
  assert.equal(data.buffer, numbers.buffer);
  assert.deepEqual([data.byteOffset, data.length], [4, 8]);
});

test("tensor() encodes texts as UTF-8", () => {
  const { data } = tensor("x", "BYTES", [1, 1], ["é"]);
  assert.deepEqual([...data], [2, 0, 0, 0, 0xc3, 0xa9]);
});

for (const shape of [[3], [1], [-1, -2], [0.5, 4], [Number.NaN]]) {
  test(`tensor() refuses the shape [${shape}] for two elements`, () => {
    assert.throws(() => tensor("x", "INT8", shape, new Int8Array(2)), /tensor 'x': shape .* does not hold 2 elements/);
  });
}

test("tensor() refuses an array of another width", () => {
  const wrong = new Int8Array(2) as unknown as Int32Array;
  assert.throws(() => tensor("x", "INT32", [2], wrong), /INT32 takes a typed array with 4 bytes an element/);
  assert.throws(() => tensor("x", "INT32", [1], [1] as unknown as Int32Array), /takes a typed array/);
});
