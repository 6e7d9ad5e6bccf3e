import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_JSON_DEPTH, MAX_JSON_KEYS } from "../../../core/limits.ts";
import { parseDocument } from "./json-access.ts";

const nested = (depth: number): Buffer => Buffer.from(`${"[".repeat(depth)}${"]".repeat(depth)}`);

test("parseDocument() takes the deepest document that is allowed, and none deeper", () => {
  assert.ok(Array.isArray(parseDocument(nested(MAX_JSON_DEPTH))));
  for (const depth of [MAX_JSON_DEPTH + 1, 100_000]) {
    assert.throws(() => parseDocument(nested(depth)), /nesting depth exceeds maximum allowed limit \(100\)/);
  }
});

test("parseDocument() takes the largest number of items, and no more", () => {
  const list = (count: number): Buffer => Buffer.from(`[${Array(count).fill(0).join(",")}]`);
  assert.equal((parseDocument(list(MAX_JSON_KEYS)) as readonly unknown[]).length, MAX_JSON_KEYS);
  assert.throws(() => parseDocument(list(MAX_JSON_KEYS + 1)), /exceeds maximum allowed number of items/);
});
