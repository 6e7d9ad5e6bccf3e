import assert from "node:assert/strict";
import { test } from "node:test";
import { pathOf, queryOf } from "./node-call.ts";

const TARGETS: readonly (readonly [target: string, path: string, query: string])[] = [
  ["/v2", "/v2", ""],
  ["/v2?a=/b?c", "/v2", "a=/b?c"],
  ["http://host/v2?x", "/v2", "x"],
  ["http://user@host:1/a/b", "/a/b", ""],
  ["//host/v2", "//host/v2", ""],
  ["*", "*", ""],
];
for (const [target, path, query] of TARGETS) {
  test(`the target ${target} has the path ${path}`, () => {
    assert.deepEqual([pathOf(target), queryOf(target)], [path, query]);
  });
}
