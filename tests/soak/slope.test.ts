import assert from "node:assert/strict";
import { test } from "node:test";
import { slopePer } from "./slope.ts";

test("slopePer() is the growth for a unit", () => {
  assert.equal(
    slopePer(10, [
      [0, 5],
      [1, 7],
      [2, 9],
    ]),
    20,
  );
  assert.equal(
    slopePer(1, [
      [0, 5],
      [4, 5],
      [9, 5],
    ]),
    0,
  );
  assert.equal(slopePer(1, [[3, 5]]), 0);
  assert.equal(slopePer(1, []), 0);
});
