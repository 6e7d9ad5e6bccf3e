import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tensor } from "../core/tensor.ts";
import { decodeEntry, encodeEntry } from "./cache-entry.ts";

const OUTPUTS: readonly Tensor[] = [
  { name: "A", datatype: "FP32", shape: [1, 2], data: new Uint8Array(new Float32Array([1.5, -2]).buffer) },
  { name: "ü", datatype: "BYTES", shape: [2], data: Uint8Array.from([1, 0, 0, 0, 65, 0, 0, 0, 0]) },
  { name: "empty", datatype: "INT8", shape: [0], data: new Uint8Array(0) },
];

test("decodeEntry() gives back what encodeEntry() was given, aligned", () => {
  const back = decodeEntry(Buffer.concat([encodeEntry(OUTPUTS)]));
  assert.deepEqual(back, OUTPUTS);
  assert.deepEqual(
    back?.map(({ data }) => data.byteOffset),
    [0, 0, 0],
  );
  assert.deepEqual(decodeEntry(encodeEntry([])), []);
});

test("decodeEntry() takes nothing that was cut or goes on", () => {
  const whole = encodeEntry(OUTPUTS);
  for (let bytes = 0; bytes < whole.length; bytes += 1) assert.equal(decodeEntry(whole.subarray(0, bytes)), undefined);
  assert.equal(decodeEntry(Buffer.concat([whole, Buffer.of(0)])), undefined);
});

function entryOf(header: unknown, data: Uint8Array = new Uint8Array(4)): Buffer {
  const value = encodeEntry([]);
  const text = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.from(value.subarray(0, 8));
  prefix.writeUInt32LE(text.length, 4);
  return Buffer.concat([prefix, text, data]);
}

const PART = { name: "A", datatype: "INT32", shape: [1], bytes: 4 };
const WRONG: readonly unknown[] = [
  null,
  { length: 1 },
  [null],
  [{ ...PART, name: 1 }],
  [{ ...PART, datatype: "INT33" }],
  [{ ...PART, shape: [2] }],
  [{ ...PART, shape: [-1] }],
  [{ ...PART, shape: [1.5] }],
  [{ ...PART, shape: "1" }],
  [{ ...PART, bytes: -4 }],
  [{ ...PART, bytes: 2 ** 60 }],
  [{ ...PART, bytes: "4" }],
  [PART, PART],
  [{ ...PART, datatype: "BYTES" }],
];
for (const header of WRONG) {
  test(`decodeEntry() takes no value described as ${JSON.stringify(header)}`, () => {
    assert.notEqual(decodeEntry(entryOf([PART])), undefined);
    assert.equal(decodeEntry(entryOf(header, Uint8Array.of(9, 0, 0, 0))), undefined);
  });
}
