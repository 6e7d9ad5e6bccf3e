import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeUtf8 } from "../utf8.ts";
import { type FloatKernel, floatKernel, floatTextBytes, SCRATCH_BYTES, useFloatMemory } from "./float-kernel.ts";
import { FIRST_FREE_BYTE, floatMemory } from "./float-memory.ts";

const COUNT = 30_000;
const SCRATCH_AT: number = FIRST_FREE_BYTE;
const FREE_AT: number = SCRATCH_AT + SCRATCH_BYTES + 1024;
const memory = floatMemory(FREE_AT + 3 * floatTextBytes(COUNT), true);
const buffer: ArrayBufferLike = memory?.buffer ?? new ArrayBuffer(0);
useFloatMemory(memory, SCRATCH_AT);
const kernel = floatKernel() as FloatKernel;
const VALUES: Float32Array = Float32Array.from({ length: COUNT }, (_, i) => ((i * 7919) % 10_007) / 97 - 50.1);
const TEXT: Uint8Array = encodeUtf8([...VALUES].map((value) => `,${value}${value % 1 === 0 ? ".0" : ""}`).join(""));

/** A part of the memory with these bytes, as far from a word as `shift` says. */
function place(bytes: Uint8Array, shift: number): Uint8Array {
  const placed = new Uint8Array(buffer, FREE_AT + shift, bytes.length);
  placed.set(bytes);
  return placed;
}

for (const shift of [0, 3]) {
  test(`FloatKernel.read() reads a text in its memory where it lies, ${shift} bytes behind a word`, () => {
    const text = place(encodeUtf8(`${new TextDecoder().decode(TEXT)}]999.5,`), shift);
    for (const first of [0, 1]) {
      const target = new Float32Array(COUNT + 1);
      assert.equal(kernel.read(text, 0, target, first, COUNT), COUNT);
      assert.equal(kernel.end, TEXT.length);
      assert.deepEqual(target.subarray(first, first + COUNT), VALUES);
    }
  });

  test(`FloatKernel.write() writes floats in its memory to its memory, ${shift} bytes behind a word`, () => {
    const floats = place(new Uint8Array(VALUES.buffer), shift);
    const room = new Uint8Array(buffer, FREE_AT + floats.length + 2 * shift, floatTextBytes(COUNT));
    const view = new DataView(buffer, floats.byteOffset, floats.length);
    assert.equal(kernel.write(view, 0, COUNT, room, 5), COUNT);
    assert.deepEqual(room.slice(5, kernel.end), TEXT);
  });
}

test("FloatKernel.read() takes no number that ends with its text, whatever lies behind", () => {
  const text = place(encodeUtf8(",1.5,2.25"), 0);
  const target = new Float32Array(2);
  assert.equal(kernel.read(text, 0, target, 0, 2), 1);
  assert.equal(kernel.end, 4);
});

test("FloatKernel.write() stops in its memory at a number that is not as usual", () => {
  const floats = place(new Uint8Array(Float32Array.of(0.5, 1e-7, 2).buffer), 0);
  const room = new Uint8Array(buffer, FREE_AT + 64, 256);
  assert.equal(kernel.write(new DataView(buffer, floats.byteOffset, floats.length), 0, 3, room, 0), 1);
  assert.equal(new TextDecoder().decode(room.slice(0, kernel.end)), ",0.5");
});

test("floatMemory() gives none where there is not so much", () => {
  assert.equal(floatMemory(2 ** 40, true), undefined);
});
