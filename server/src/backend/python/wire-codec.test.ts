import assert from "node:assert/strict";
import { test } from "node:test";
import type { ParameterValue } from "../../core/infer-request.ts";
import type { Tensor } from "../../core/tensor.ts";
import { FrameReader, FrameWriter } from "./wire-codec.ts";

/** A written message as its reader sees it, after length and kind. */
function readerOf(writer: FrameWriter): FrameReader {
  const frame = Buffer.concat(writer.finish());
  assert.equal(frame.readUInt32LE(0), frame.length - 4);
  const reader = new FrameReader(frame.subarray(4));
  reader.u8();
  return reader;
}

test("`FrameReader` gives back the scalars that `FrameWriter` wrote", () => {
  const writer = new FrameWriter(1);
  writer.u8(255);
  writer.u32(2 ** 32 - 1);
  writer.u64(2n ** 64n - 1n);
  writer.string("zażółć 😀");
  writer.strings(["", "a"]);
  const reader = readerOf(writer);
  assert.deepEqual(
    [reader.u8(), reader.u32(), reader.u64(), reader.string(), reader.strings()],
    [255, 2 ** 32 - 1, 2n ** 64n - 1n, "zażółć 😀", ["", "a"]],
  );
});

for (const value of [0, -1, 5, 2 ** 32, -(2 ** 32), 2 ** 53 - 1, -(2 ** 53 - 1), 2n ** 63n - 1n, -(2n ** 63n)]) {
  test(`\`i64()\` keeps all digits when it reads ${value}`, () => {
    const writer = new FrameWriter(1);
    writer.i64(value);
    assert.equal(readerOf(writer).i64(), value);
  });
}

test("`parameters()` keeps the kinds apart when integers, doubles, booleans and text mix", () => {
  const parameters = new Map<string, ParameterValue>([
    ["b", true],
    ["i", -3],
    ["big", 2n ** 62n],
    ["d", { double: 5 }],
    ["s", "text"],
  ]);
  const writer = new FrameWriter(1);
  writer.parameters(parameters);
  assert.deepEqual(readerOf(writer).parameters(), parameters);
});

for (const length of [0, 8, 4096, 4104, 1_000_000]) {
  test(`\`tensor()\` keeps name, shape and bytes when data has ${length} bytes`, () => {
    const data = new Uint8Array(length).map((_, index) => index % 251);
    const tensor: Tensor = { name: "IN", datatype: "FP64", shape: [length / 8], data };
    const writer = new FrameWriter(1);
    writer.string("x"); // misaligns the data
    writer.tensor(tensor);
    writer.string("after");
    const reader = readerOf(writer);
    reader.string();
    const read = reader.tensor();
    assert.deepEqual({ ...read, data: Buffer.from(read.data) }, { ...tensor, data: Buffer.from(data) });
    assert.equal(reader.string(), "after");
  });
}

test("`tensor()` puts data at a multiple of eight when names have odd lengths", () => {
  for (const name of ["a", "ab", "abc", "abcdefgh"]) {
    const writer = new FrameWriter(1);
    writer.tensor({ name, datatype: "UINT8", shape: [1], data: Uint8Array.of(77) });
    const body = Buffer.concat(writer.finish()).subarray(4);
    assert.equal(body.lastIndexOf(77) % 8, 0);
  }
});

test("`finish()` refers to big data when it is large enough not to copy", () => {
  const data = new Uint8Array(10_000);
  const writer = new FrameWriter(1);
  writer.tensor({ name: "x", datatype: "UINT8", shape: [10_000], data });
  assert.ok(writer.finish().includes(data));
});

test("`FrameReader` throws when a message ends inside a field", () => {
  const writer = new FrameWriter(1);
  writer.tensor({ name: "x", datatype: "INT32", shape: [2], data: new Uint8Array(8) });
  const body = Buffer.concat(writer.finish()).subarray(4);
  for (let size = 1; size < body.length; size += 1) {
    const reader = new FrameReader(body.subarray(0, size));
    reader.u8();
    assert.throws(() => reader.tensor(), RangeError);
  }
});

test("`tensor()` throws when shape and data disagree", () => {
  const writer = new FrameWriter(1);
  writer.tensor({ name: "x", datatype: "INT32", shape: [3], data: new Uint8Array(8) });
  assert.throws(() => readerOf(writer).tensor(), /tensor 'x' of shape \[3\] needs 12 bytes, got 8/);
});
