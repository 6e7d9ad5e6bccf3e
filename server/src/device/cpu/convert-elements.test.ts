import assert from "node:assert/strict";
import { test } from "node:test";
import { openGgml } from "../../native/ggml/ggml.ts";
import { convertElements } from "./convert-elements.ts";

const ggml = openGgml();
const bytesOf = (values: Float32Array | Uint16Array): Uint8Array => new Uint8Array(values.buffer);
// The same three values in each type.
const F32 = Float32Array.of(1, -2.5, 0);
const F16 = Uint16Array.of(0x3c00, 0xc100, 0);
const BF16 = Uint16Array.of(0x3f80, 0xc020, 0);
const STORED = { f32: bytesOf(F32), f16: bytesOf(F16), bf16: bytesOf(BF16) };

for (const from of ["f32", "f16", "bf16"] as const) {
  for (const to of ["f32", "f16", "bf16"] as const) {
    test(`convertElements() turns ${from} into ${to}`, () => {
      assert.deepEqual(convertElements(ggml, from, to, STORED[from]), STORED[to]);
    });
  }
}

test("convertElements() rounds to the nearest", () => {
  const rounded = convertElements(ggml, "f32", "bf16", bytesOf(Float32Array.of(1 + 2 ** -8 + 2 ** -12)));
  assert.deepEqual(new Uint16Array(rounded.buffer), Uint16Array.of(0x3f81));
});
