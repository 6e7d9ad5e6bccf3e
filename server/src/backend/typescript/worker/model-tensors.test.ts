import assert from "node:assert/strict";
import { test } from "node:test";
import { packBytesElements } from "../../../core/bytes-tensor.ts";
import type { Tensor } from "../../../core/tensor.ts";
import { TensorPacker } from "../pack-tensors.ts";
import { inputsByName, shapeOf, tensorOf } from "./model-tensors.ts";

test("`shapeOf()` finds the one shape that the configuration and the elements tell", () => {
  const cases = [
    { dims: [4], rows: undefined, count: 4, expected: [4] },
    { dims: [4], rows: 2, count: 8, expected: [2, 4] },
    { dims: [-1], rows: 2, count: 6, expected: [2, 3] },
    { dims: [4], rows: -1, count: 12, expected: [3, 4] },
    { dims: [-1], rows: -1, count: 5, expected: [1, 5] },
    { dims: [-1, 2], rows: undefined, count: 0, expected: [0, 2] },
    { dims: [], rows: undefined, count: 1, expected: [] },
    { dims: undefined, rows: 3, count: 5, expected: [5] },
  ] as const;
  for (const { dims, rows, count, expected } of cases) assert.deepEqual(shapeOf(dims, rows, count, "x"), expected);
});

test("`shapeOf()` refuses what is no shape, or more than one", () => {
  const cases = [
    { dims: [4], rows: 1, count: 3, expected: /x has shape \[1,4\] and 3 elements: their number does not fit/ },
    { dims: [-1, 4], rows: undefined, count: 3, expected: /their number does not fit/ },
    { dims: [-1, -1], rows: undefined, count: 4, expected: /give \{ data, shape \}/ },
    { dims: [0], rows: -1, count: 0, expected: /their number does not fit/ },
  ] as const;
  for (const { dims, rows, count, expected } of cases) assert.throws(() => shapeOf(dims, rows, count, "x"), expected);
});

test("`tensorOf()` takes arrays, wrapped arrays and tensors that came in", () => {
  const plan = { name: "Y", datatype: "FP32", dims: [2] } as const;
  const data = new Uint8Array(Float32Array.of(1, 2).buffer);
  const expected = { name: "Y", datatype: "FP32", shape: [1, 2], data };
  assert.deepEqual(tensorOf("output", "Y", [1, 2], plan, 1), expected);
  assert.deepEqual(tensorOf("output", "Y", { data: Float32Array.of(1, 2) }, plan, 1), expected);
  assert.deepEqual(tensorOf("output", "Y", { data: [1, 2], shape: [2, 1] }, plan, 1), { ...expected, shape: [2, 1] });
  const own = tensorOf("output", "Y", { data: [1, 2], datatype: "FP32" }, undefined, 1);
  assert.deepEqual(own, { ...expected, shape: [2] });
  assert.throws(() => tensorOf("output", "Y", [1, 2], undefined, 1), /plain numbers do not tell a datatype/);
  assert.throws(
    () => tensorOf("output", "Y", { data: [1, 2], shape: [3] }, plan, 1),
    /has 2 elements, and its shape \[3\] holds 3/,
  );
});

test("tensors that went through a buffer are views of their kind, at any size before them", () => {
  const tensors: Tensor[] = [
    { name: "TEXT", datatype: "BYTES", shape: [2], data: packBytesElements(["é", "abc"]) },
    { name: "X", datatype: "INT64", shape: [1], data: new Uint8Array(BigInt64Array.of(-5n).buffer) },
    { name: "__proto__", datatype: "UINT8", shape: [1], data: Uint8Array.of(7) },
  ];
  const packer = new TensorPacker();
  const packed = packer.addAll(tensors);
  const inputs = inputsByName(packed, packer.finish());
  assert.deepEqual(inputs.TEXT?.strings, ["é", "abc"]);
  assert.deepEqual(inputs.X?.data, BigInt64Array.of(-5n));
  assert.deepEqual(inputs.X?.strings, ["-5"]);
  assert.deepEqual(Object.keys(inputs), ["TEXT", "X", "__proto__"]);
});
