import assert from "node:assert/strict";
import { test } from "node:test";
import { checkBytesElements, packBytesElements, splitBytesElements } from "./bytes.ts";

test("packBytesElements() and splitBytesElements() undo each other", () => {
  const raw = Uint8Array.of(0xff, 0, 0x80);
  const packed = packBytesElements(["", "aé€😀", raw]);
  assert.equal(packed.length, 3 * 4 + 10 + 3);
  assert.equal(checkBytesElements(packed, 3), undefined);
  const [empty, text, bytes] = splitBytesElements(packed).map((element) => Buffer.from(element));
  assert.deepEqual([empty?.length, text?.toString()], [0, "aé€😀"]);
  assert.deepEqual(bytes, Buffer.from(raw));
  assert.deepEqual(splitBytesElements(packBytesElements([])), []);
});

test("splitBytesElements() gives views, also of data inside a larger buffer", () => {
  const packed = packBytesElements(["abc"]);
  const buffer = new Uint8Array(packed.length + 3);
  buffer.set(packed, 3);
  const [element] = splitBytesElements(buffer.subarray(3));
  assert.equal(element?.buffer, buffer.buffer);
  assert.equal(Buffer.from(element ?? []).toString(), "abc");
});

const two = packBytesElements(["ab", "c"]);
const faults: [what: string, data: Uint8Array, expected: number, fault: unknown][] = [
  ["more elements", two, 1, { kind: "excess", count: 2 }],
  ["fewer elements", two, 3, { kind: "missing", count: 2 }],
  ["no elements", new Uint8Array(0), 1, { kind: "missing", count: 0 }],
  ["a length cut off", two.subarray(0, 8), 2, { kind: "cut length", left: 2 }],
  ["an element cut off", two.subarray(0, 5), 2, { kind: "cut element", length: 2, left: 1 }],
  ["a giant length", Uint8Array.of(255, 255, 255, 255, 1), 1, { kind: "cut element", length: 0xffffffff, left: 1 }],
];
for (const [what, data, expected, fault] of faults) {
  test(`checkBytesElements() tells of ${what}`, () => {
    assert.deepEqual(checkBytesElements(data, expected), fault);
  });
}
