import assert from "node:assert/strict";
import { test } from "node:test";
import { fromElements, rounded, toElements } from "./cuda-elements.ts";

test("rounded() keeps what each type can hold", () => {
  const values = Float32Array.of(0.5, -2, 1.75);
  for (const type of ["f32", "bf16", "f16", "e4m3"] as const) {
    assert.deepEqual(rounded(type, values), values);
    assert.deepEqual(fromElements(type, toElements(type, values)), values);
  }
});
