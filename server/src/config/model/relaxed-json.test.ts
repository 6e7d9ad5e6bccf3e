import assert from "node:assert/strict";
import { test } from "node:test";
import { parseJsonMessage } from "./json-form.ts";
import { strictJson } from "./relaxed-json.ts";

const CASES: readonly (readonly [relaxed: string, value: unknown])[] = [
  ["{a: 1, $b_2 : [true, null]}", { a: 1, $b_2: [true, null] }],
  [`{'a': 'it\\'s "x"', "b": "c: 'd'"}`, { a: `it's "x"`, b: "c: 'd'" }],
  [`{"a\\": b": {c: {}}}`, { 'a": b': { c: {} } }],
];

for (const [relaxed, value] of CASES) {
  test(`strictJson() makes standard JSON of ${relaxed}`, () => {
    assert.deepEqual(JSON.parse(strictJson(relaxed)), value);
  });
}

test("strictJson() leaves text alone that is no relaxed JSON", () => {
  for (const text of ["{", "[1, 2", "tru", "'open", '{"a" 1}']) assert.equal(strictJson(text), text);
});

test("strictJson() takes time in proportion to the text", () => {
  for (const unit of ["a", '"', "'", "\\", "a ", "'\\"]) {
    assert.ok(strictJson(unit.repeat(200_000)).length > 0);
  }
});

test("parseJsonMessage() takes a key without quotes, as Protobuf's parser does", () => {
  const message = parseJsonMessage(
    '{"max_batch_size": 2, dynamic_batching: { "preferred_batch_size": [2] }}',
    "ModelConfig",
  );
  assert.deepEqual(
    message,
    parseJsonMessage('{"max_batch_size": 2, "dynamic_batching": { "preferred_batch_size": [2] }}', "ModelConfig"),
  );
  assert.throws(() => parseJsonMessage("{a b}", "ModelConfig"), /Invalid config override: not valid JSON/);
});
