import assert from "node:assert/strict";
import { test } from "node:test";
import { convertFloats, isSameFloat, transposeFloats } from "./convert-floats.ts";

function bytes(array: Float32Array | Uint16Array): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

test("convertFloats() rounds to the nearest bf16, ties to even, and keeps what is no number", () => {
  const bits = Uint32Array.of(0x3f800000, 0x3f808000, 0x3f818000, 0x3f808001, 0x7f800000, 0x7f800001, 0x80000000);
  const into = new Uint16Array(bits.length);
  convertFloats("F32", new Uint8Array(bits.buffer), "bf16", bytes(into));
  assert.deepEqual([...into], [0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0x7fc0, 0x8000]);
});

for (const [from, stored] of [
  ["F32", bytes(Float32Array.of(1, -2.5, 0))],
  ["F16", bytes(Uint16Array.of(0x3c00, 0xc100, 0))],
  ["BF16", bytes(Uint16Array.of(0x3f80, 0xc020, 0))],
] as const) {
  test(`convertFloats() widens ${from}`, () => {
    const into = new Float32Array(3);
    convertFloats(from, stored, "f32", bytes(into));
    assert.deepEqual([...into], [1, -2.5, 0]);
  });
}

test("convertFloats() refuses a target of another size", () => {
  assert.throws(() => convertFloats("F32", new Uint8Array(8), "bf16", new Uint8Array(8)), /room for 2 numbers of bf16/);
});

test("isSameFloat() is true for the same bytes only", () => {
  assert.deepEqual(
    [isSameFloat("BF16", "bf16"), isSameFloat("F32", "f32"), isSameFloat("F16", "bf16")],
    [true, true, false],
  );
});

test("transposeFloats() exchanges rows and columns", () => {
  const halves = new Uint16Array(transposeFloats(bytes(Uint16Array.of(1, 2, 3, 4, 5, 6)), 2, 2, 3).buffer);
  assert.deepEqual([...halves], [1, 4, 2, 5, 3, 6]);
  const words = new Float32Array(transposeFloats(bytes(Float32Array.of(1, 2, 3, 4)), 4, 2, 2).buffer);
  assert.deepEqual([...words], [1, 3, 2, 4]);
});
