import assert from "node:assert/strict";
import { test } from "node:test";
import { type FrameReader, FrameSplitter, FrameWriter } from "./frame.ts";

function writeFrame(writer: FrameWriter, kind: number): Uint8Array {
  writer.begin(kind);
  writer.int(-kind);
  writer.double(Math.PI * kind);
  writer.ints(Int32Array.from({ length: kind * 100 }, (_, i) => i - kind));
  writer.floats(Float32Array.of(0.5, Number.NEGATIVE_INFINITY));
  writer.text("é".repeat(kind));
  return writer.end();
}

function readFrame(frame: FrameReader): unknown[] {
  return [frame.kind, frame.int(), frame.double(), [...frame.ints()].at(-1), [...frame.floats()], frame.text()];
}

function expected(kind: number): unknown[] {
  return [kind, -kind, Math.PI * kind, kind * 99 - 1, [0.5, Number.NEGATIVE_INFINITY], "é".repeat(kind)];
}

test("FrameSplitter gives whole frames whatever pieces the bytes come in", () => {
  const writer = new FrameWriter();
  const kinds = Array.from({ length: 20 }, (_, i) => i + 1);
  const bytes = Buffer.concat(kinds.map((kind) => writeFrame(writer, kind)));
  for (const size of [1, 3, 7, 1000, 4096, bytes.length]) {
    const frames: unknown[][] = [];
    const splitter = new FrameSplitter((frame) => frames.push(readFrame(frame)));
    for (let at = 0; at < bytes.length; at += size) splitter.push(bytes.subarray(at, at + size));
    assert.deepEqual(frames, kinds.map(expected), `pieces of ${size}`);
  }
});

test("FrameSplitter refuses lengths that no writer produces", () => {
  for (const length of [0, 1, -5, 2 ** 30]) {
    const bytes = new Uint8Array(Int32Array.of(length, 1).buffer);
    assert.throws(() => new FrameSplitter(() => undefined).push(bytes), RangeError);
  }
});

test("FrameReader throws when a frame is too short for a field", () => {
  const writer = new FrameWriter();
  writer.begin(1);
  writer.int(1000);
  const splitter = new FrameSplitter((frame) => assert.throws(() => frame.ints(), /frame of kind 1 is too short/));
  splitter.push(writer.end());
});
