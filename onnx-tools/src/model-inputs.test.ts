import assert from "node:assert/strict";
import { test } from "node:test";
import { defaultShape } from "./model-inputs.ts";

for (const { dims, dimNames, expected } of [
  { dims: [-1, -1], dimNames: ["", ""], expected: [2, 8] },
  { dims: [-1, 3, 224, 224], dimNames: ["batch_size", "", "", ""], expected: [2, 3, 224, 224] },
  { dims: [-1, -1, 4], dimNames: ["sequence", "batch", ""], expected: [2, 2, 4] },
  { dims: [-1, 1176], dimNames: ["patches", ""], expected: [8, 1176] },
]) {
  test(`defaultShape() of [${dims.join(", ")}] named [${dimNames.join(", ")}] is [${expected.join(", ")}]`, () => {
    assert.deepEqual(defaultShape({ dims, dimNames }), expected);
  });
}
