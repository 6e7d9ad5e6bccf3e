import assert from "node:assert/strict";
import { test } from "node:test";
import { lengthAsPattern } from "./string-lengths.ts";

const CASES: readonly (readonly [schema: Record<string, unknown>, expected: object])[] = [
  [
    { type: "string", minLength: 2, maxLength: 5, title: "t" },
    { type: "string", title: "t", pattern: "^.{2,5}$" },
  ],
  [
    { type: ["string", "null"], maxLength: 3 },
    { type: ["string", "null"], pattern: "^.{0,3}$" },
  ],
  [
    { type: "string", minLength: 4 },
    { type: "string", pattern: "^.{4,}$" },
  ],
];

const UNCHANGED: readonly Record<string, unknown>[] = [
  { type: "string" },
  { type: "array", minLength: 2 },
  { type: "string", minLength: 2, pattern: "^a" },
  { type: "string", minLength: 2, format: "date" },
  { type: "string", maxLength: 1, enum: ["a"] },
  { type: "string", minLength: -1 },
  { type: "string", minLength: 3, maxLength: 2 },
  { type: "string", maxLength: 1.5 },
];

test("lengthAsPattern() counts any characters", () => {
  for (const [schema, expected] of CASES) assert.deepEqual(lengthAsPattern(schema), expected);
});

test("lengthAsPattern() leaves other schemas to the library", () => {
  for (const schema of UNCHANGED) assert.equal(lengthAsPattern(schema), schema);
});
