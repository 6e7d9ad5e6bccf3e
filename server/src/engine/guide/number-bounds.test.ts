import assert from "node:assert/strict";
import { test } from "node:test";
import { withClosedBounds } from "./number-bounds.ts";

const LARGEST = 999_999_999_999_999;

const CASES: readonly (readonly [schema: object, closed: object])[] = [
  [
    { type: "integer", minimum: 3 },
    { type: "integer", minimum: 3, maximum: LARGEST },
  ],
  [
    { type: "integer", maximum: -7 },
    { type: "integer", minimum: -LARGEST, maximum: -7 },
  ],
  [
    { type: "integer", exclusiveMinimum: 0, exclusiveMaximum: 5 },
    { type: "integer", minimum: 1, maximum: 4 },
  ],
  [
    { type: "integer", exclusiveMinimum: 0.5, maximum: 4.5 },
    { type: "integer", minimum: 1, maximum: 4 },
  ],
  [
    { type: ["integer", "null"], minimum: 2 },
    { type: ["integer", "null"], minimum: 2, maximum: LARGEST },
  ],
  [
    { type: "number", minimum: 0.5, maximum: 2.5 },
    { type: "number", minimum: 0, maximum: 2 },
  ],
  [
    { type: "number", exclusiveMinimum: 0 },
    { type: "number", minimum: 0, maximum: LARGEST },
  ],
  [{ type: "integer" }, { type: "integer" }],
  [
    { type: "object", properties: { minimum: { type: "string" } } },
    { type: "object", properties: { minimum: { type: "string" } } },
  ],
  [{ enum: [{ type: "integer", minimum: 3 }] }, { enum: [{ type: "integer", minimum: 3 }] }],
  [
    { type: "array", items: [{ type: "integer", minimum: 3 }] },
    { type: "array", items: [{ type: "integer", minimum: 3, maximum: LARGEST }] },
  ],
];

for (const [schema, closed] of CASES) {
  test(`withClosedBounds() closes ${JSON.stringify(schema)}`, () => {
    assert.deepEqual(withClosedBounds(schema), closed);
  });
}
