import assert from "node:assert/strict";
import { test } from "node:test";
import { withoutBoundedNumbers } from "./bounded-numbers.ts";

const MARK = { const: "@nereid-number-0@" };
const CASES: readonly (readonly [schema: object, replaced: object])[] = [
  [{ type: "integer", minimum: 3 }, MARK],
  [{ type: "number", exclusiveMaximum: 0.5 }, MARK],
  [{ type: ["integer", "null"], minimum: 2 }, { anyOf: [MARK, { type: ["null"], minimum: 2 }] }],
  [
    { type: "array", items: [{ type: "integer", minimum: 3 }] },
    { type: "array", items: [MARK] },
  ],
  [{ properties: { minimum: { type: "number", minimum: 3 } } }, { properties: { minimum: MARK } }],
  [{ type: "integer" }, { type: "integer" }],
  [{ type: "number", multipleOf: 0.5, minimum: 0, maximum: 2 }, MARK],
  [
    { type: "integer", multipleOf: 7 },
    { type: "integer", multipleOf: 7 },
  ],
  [
    { enum: [1, 2, 3.5, 4, "x"], minimum: 2, multipleOf: 1 },
    { enum: [2, 4, "x"], minimum: 2, multipleOf: 1 },
  ],
  [
    { type: "object", properties: { minimum: { type: "string" } } },
    { type: "object", properties: { minimum: { type: "string" } } },
  ],
  [{ enum: [{ type: "integer", minimum: 3 }] }, { enum: [{ type: "integer", minimum: 3 }] }],
];

for (const [schema, replaced] of CASES) {
  test(`withoutBoundedNumbers() takes the range out of ${JSON.stringify(schema)}`, () => {
    assert.deepEqual(withoutBoundedNumbers(schema).schema, replaced);
  });
}

test("complete() puts the range where the constant stands, with text around it", () => {
  const { complete } = withoutBoundedNumbers({ type: "integer", minimum: 3, maximum: 5 });
  assert.equal(
    complete('root ::= (("{\\"a\\":\\"@nereid-number-0@\\"}"))'),
    'root ::= (("{\\"a\\":" (("3"  | "4"  | "5" )) "}"))',
  );
});
