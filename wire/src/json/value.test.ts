import assert from "node:assert/strict";
import { test } from "node:test";
import { encodeUtf8 } from "../utf8.ts";
import { JsonLimitError } from "./error.ts";
import { JsonReader } from "./reader.ts";
import { readDocument } from "./value.ts";

const LIMITS = { maxDepth: 100, maxItems: 1000 };

function read(text: string): unknown {
  return readDocument(new JsonReader(LIMITS), encodeUtf8(text));
}

const ROW = `[${"1,".repeat(98)}1]`;
const TOO_MANY: readonly [what: string, text: string][] = [
  ["elements", `[${"1,".repeat(1000)}1]`],
  ["elements of many arrays together", `[${`${ROW},`.repeat(10)}1]`],
  ["empty arrays", `[${"[],".repeat(1000)}[]]`],
  ["members of one name", `{${'"a":1,'.repeat(1000)}"a":1}`],
  ["members of objects in objects", `{${Array.from({ length: 600 }, (_, i) => `"${i}":{"a":1}`).join()}}`],
];
for (const [what, text] of TOO_MANY) {
  test(`readDocument() refuses more ${what} than the limit`, () => {
    assert.throws(() => read(text), JsonLimitError);
  });
}

test("readDocument() takes as many items as the limit, and counts anew for each text", () => {
  const reader = new JsonReader(LIMITS);
  const bytes = encodeUtf8(`[${`${ROW},`.repeat(9)}${"1,".repeat(99)}1]`);
  for (const _ of [1, 2]) assert.equal((readDocument(reader, bytes) as readonly unknown[]).length, 109);
});

test("readDocument() refuses nesting beyond the limit before it can overflow the stack", () => {
  for (const open of ["[", '{"a":']) assert.throws(() => read(open.repeat(1_000_000)), JsonLimitError);
});

test("readDocument() gives names of prototypes as plain members", () => {
  const value = read('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}');
  assert.ok(value instanceof Map);
  assert.deepEqual([...value.keys()], ["__proto__", "constructor"]);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});
