import assert from "node:assert/strict";
import { test } from "node:test";
import { byteSize, elementCount } from "./tensor.ts";

test("elementCount() multiplies, and refuses what no number holds exactly", () => {
  assert.equal(elementCount([]), 1);
  assert.equal(elementCount([2, 3, 0]), 0);
  assert.equal(elementCount([2 ** 26, 2 ** 26]), 2 ** 52);
  for (const shape of [[2 ** 31, 2 ** 31, 4], [2 ** 53], [2 ** 27, 2 ** 26], [-1], [2, -3], [0.5], [Number.NaN]]) {
    assert.throws(() => elementCount(shape), /out of range/, shape.join());
  }
});

test("byteSize() knows none for BYTES", () => {
  assert.equal(byteSize("BYTES", [2, 3]), undefined);
  assert.equal(byteSize("FP16", [2, 3]), 12);
});
