import assert from "node:assert/strict";
import { test } from "node:test";
import type { ChatTool } from "../chat-contract.ts";
import { toolGrammar } from "./tool-grammar.ts";
import { TOOL_ROWS } from "./tool-rows.ts";

/** A tree whose references lead to the whole schema, into one of its properties, and into its definitions. */
const TOOL: ChatTool = {
  type: "function",
  function: {
    name: "grow",
    parameters: {
      type: "object",
      properties: {
        size: { type: "integer", minimum: 1 },
        child: { anyOf: [{ $ref: "#" }, { type: "null" }] },
        height: { $ref: "#/properties/size" },
        leaf: { $ref: "#/$defs/leaf" },
        twigs: { type: "array", items: { $ref: "#/definitions/twig" } },
      },
      required: ["size"],
      $defs: { leaf: { enum: ["green", "red"] } },
      definitions: { twig: { anyOf: [{ $ref: "#/$defs/leaf" }, { $ref: "#/properties/height" }] } },
    },
  },
};

function members(value: unknown): readonly (readonly [string, unknown])[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap((entry) => [entry, ...members(entry[1])]);
}

/** RFC 6901, without escapes. */
function target(root: unknown, reference: string): unknown {
  return reference
    .split("/")
    .slice(1)
    .reduce<unknown>((at, step) => Reflect.get(Object(at), step), root);
}

for (const row of TOOL_ROWS) {
  test(`references of a schema lead somewhere in the grammar of ${row.name}`, () => {
    const guide = toolGrammar(row, [TOOL], "required", true);
    const schemas = members(JSON.parse(guide?.text ?? "")).flatMap(([key, value]) =>
      key === "json_schema" ? [value] : [],
    );
    const references = schemas.flatMap((schema) =>
      members(schema).flatMap(([key, value]) =>
        key === "$ref" && typeof value === "string" ? [[schema, value] as const] : [],
      ),
    );
    assert.ok(references.length >= 6);
    for (const [schema, reference] of references) {
      const found = target(schema, reference);
      assert.equal(typeof found, "object", reference);
      assert.ok(!Object.hasOwn(Object(found), "$ref") || Object(found).$ref !== reference, `${reference} is itself`);
    }
  });
}

test("thousands of references in one schema are refused before they multiply", () => {
  const names = Array.from({ length: 4000 }, (_, i) => `p${i}`);
  const properties = Object.fromEntries(names.map((name) => [name, { $ref: "#/$defs/x" }]));
  const parameters = { type: "object", properties, $defs: { x: { type: "string" } } };
  const tool: ChatTool = { type: "function", function: { name: "f", parameters } };
  for (const row of TOOL_ROWS.filter(({ form }) => form.kind === "parameters" || form.kind === "pythonic")) {
    assert.throws(() => toolGrammar(row, [tool], "required", true), /tools: 4000 parameters with references/, row.name);
  }
});
