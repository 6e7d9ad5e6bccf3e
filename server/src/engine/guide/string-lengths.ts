/**
 * Lengths of strings as patterns. The library's own form of a length (web-xgrammar 0.1.27) leaves out quotes, backslashes and line breaks,
 * so that a bounded text could have none. A pattern of any characters takes all, and json-strings.ts writes them as escapes.
 * Source: JSON Schema 2020-12, Validation, 6.3: a length counts code points.
 */
import type { JsonObject } from "../../core/json-object.ts";

/** Beside these the library decides what a length means. */
const OTHER_RULES = ["pattern", "format", "enum", "const", "$ref", "anyOf", "oneOf", "allOf"];

/** The schema of strings with a length as one with a pattern; others as they are. */
export function lengthAsPattern(schema: JsonObject): JsonObject {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const { minLength = 0, maxLength = "", ...others } = schema;
  const isBounded = schema.minLength !== undefined || schema.maxLength !== undefined;
  if (!types.includes("string") || !isBounded || OTHER_RULES.some((rule) => Object.hasOwn(schema, rule))) return schema;
  if (!isCount(minLength) || !(maxLength === "" || (isCount(maxLength) && maxLength >= minLength))) return schema;
  return { ...others, pattern: `^.{${minLength},${maxLength}}$` };
}

/** The library tells the client of others. */
function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
