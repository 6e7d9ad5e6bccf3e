import assert from "node:assert/strict";
import { test } from "node:test";
import { FrameReader, FrameWriter } from "./wire-codec.ts";

/** The message without its length, which begins with its kind. */
function bodyOf(write: (to: FrameWriter) => void): Buffer {
  const writer = new FrameWriter(1);
  write(writer);
  return Buffer.concat(writer.finish()).subarray(4);
}

function readerOf(body: Buffer): FrameReader {
  const reader = new FrameReader(body);
  reader.u8();
  return reader;
}

const TENSOR = { name: "X", datatype: "INT32", shape: [1], data: Uint8Array.of(1, 2, 3, 4) } as const;

test("FrameReader refuses fields that end behind their message", () => {
  const body = bodyOf((to) => to.string("hello"));
  assert.equal(readerOf(body).string(), "hello");
  for (let end = 1; end < body.length; end++) {
    assert.throws(() => readerOf(body.subarray(0, end)).string(), RangeError, `${end}`);
  }
});

test("FrameReader refuses tensors whose bytes do not match their shape", () => {
  const read = (shape: readonly number[]): unknown =>
    readerOf(bodyOf((to) => to.tensor({ ...TENSOR, shape }))).tensor();
  assert.ok(read([1]));
  for (const shape of [[2], [0], [1, 3]]) assert.throws(() => read(shape), /needs \d+ bytes, got 4/, shape.join());
});
