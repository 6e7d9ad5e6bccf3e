import assert from "node:assert/strict";
import { test } from "node:test";
import { expectDistinct, expectLength, pathProblem } from "./object-path.ts";

test("pathProblem() finds what must not become a path", () => {
  assert.equal(pathProblem("m/1/model.onnx"), undefined);
  assert.equal(pathProblem("m/..a/b..c"), undefined);
  for (const path of ["", "..", "../x", "m/../x", "m//x", "/m", "m/", "./m", "m\\x", "m\nx", `m/${"x".repeat(256)}`]) {
    assert.notEqual(pathProblem(path), undefined, path);
  }
  assert.notEqual(pathProblem("a/".repeat(600)), undefined);
});

test("expectLength() takes lengths up to a pebibyte", () => {
  for (const bytes of [0, 1, 2 ** 50]) assert.equal(expectLength(bytes, "p", "s"), bytes);
  for (const bytes of [-1, 0.5, Number.NaN, 2 ** 50 + 1, 2 ** 53, Number.POSITIVE_INFINITY]) {
    assert.throws(() => expectLength(bytes, "p", "s"), /expected 0 to/, `${bytes}`);
  }
});

test("expectDistinct() refuses a name twice, and one that is file and folder", () => {
  expectDistinct(["a/b", "a/c"], "s");
  assert.throws(() => expectDistinct(["a", "a"], "s"), /twice/);
  assert.throws(() => expectDistinct(["a", "a/b"], "s"), /as an object and as a folder/);
});
