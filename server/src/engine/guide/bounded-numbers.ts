/**
 * Schemas whose bounded numbers become grammars of this server: the library's own grammars of ranges let wrong numbers
 * pass (web-xgrammar 0.1.27: -5445 for -56.5 to -54.5, 1 for a minimum of 3, "-" for a minimum of -3). A number leaves the schema as a constant text, whose place
 * in the grammar of the schema takes the range. Lengths of strings become patterns on the way. Source: JSON Schema 2020-12, Validation, 6.2.
 */
import { isObject, type JsonObject } from "../../core/json-object.ts";
import { isMultiple, isWithin, numberMultiples } from "./number-multiples.ts";
import { type NumberBounds, numberRange } from "./number-range.ts";
import { lengthAsPattern } from "./string-lengths.ts";

export interface SchemaParts {
  readonly schema: unknown;
  /** Puts the ranges into the EBNF of the schema. */
  complete(ebnf: string): string;
}

/** Members that hold a schema, a list of them, or an object of them. */
const INNER_SCHEMAS = ["items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames"];
const INNER_LISTS = ["anyOf", "oneOf", "allOf", "prefixItems"];
const INNER_OBJECTS = ["properties", "patternProperties", "$defs", "definitions"];
const BOUNDS = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] as const;
/** A number may be an integer, so it comes first. */
const KINDS = ["number", "integer"];
/** These say which values there are: bounds beside them are left to the library. */
const OTHER_RULES = ["enum", "const", "$ref", ...INNER_LISTS];

export function withoutBoundedNumbers(schema: unknown): SchemaParts {
  const ranges: string[] = [];
  const changed = replaceIn(schema, ranges);
  return { schema: changed, complete: (ebnf) => complete(ebnf, ranges) };
}

function replaceIn(schema: unknown, ranges: string[]): unknown {
  if (!isObject(schema)) return schema;
  const entries = Object.entries(schema).map(([key, value]) => [key, replaceMember(key, value, ranges)] as const);
  return lengthAsPattern(replaceNumber(Object.fromEntries(entries), ranges));
}

function replaceMember(key: string, value: unknown, ranges: string[]): unknown {
  const isSchema = INNER_SCHEMAS.includes(key); // `items` of older drafts may be a list
  if ((isSchema || INNER_LISTS.includes(key)) && Array.isArray(value))
    return value.map((each) => replaceIn(each, ranges));
  if (isSchema) return replaceIn(value, ranges);
  if (!INNER_OBJECTS.includes(key) || !isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, replaceIn(each, ranges)]));
}

function replaceNumber(schema: JsonObject, ranges: string[]): JsonObject {
  const types = Array.isArray(schema.type) ? schema.type : [schema.type];
  const kind = KINDS.find((each) => types.includes(each));
  if (Array.isArray(schema.enum)) return withinBounds(schema, schema.enum);
  if (kind === undefined || OTHER_RULES.some((rule) => Object.hasOwn(schema, rule))) return schema;
  const range = rangeOf(schema, kind === "integer");
  if (range === undefined) return schema;
  const number = { const: markOf(ranges.push(range) - 1) };
  const otherTypes = types.filter((type) => type !== "number" && type !== "integer");
  if (otherTypes.length === 0) return { ...definitionsOf(schema), ...number };
  const others = { ...schema, type: otherTypes };
  return { ...definitionsOf(schema), anyOf: [number, others] };
}

/** A step that has no form in a grammar is left out. */
function rangeOf(schema: JsonObject, isInteger: boolean): string | undefined {
  const bounds = boundsOf(schema);
  const { multipleOf: step } = schema;
  const multiples = typeof step === "number" ? numberMultiples(bounds ?? {}, step, isInteger) : undefined;
  return multiples ?? (bounds && numberRange(bounds, isInteger));
}

/** Numbers of an `enum` that its other rules take; all where they take none, which the library then refuses or not. */
function withinBounds(schema: JsonObject, values: readonly unknown[]): JsonObject {
  const bounds = boundsOf(schema) ?? {};
  const { multipleOf: step } = schema;
  const kept = values.filter((value) => {
    return (
      typeof value !== "number" || (isWithin(value, bounds) && (typeof step !== "number" || isMultiple(value, step)))
    );
  });
  return kept.length === 0 ? schema : { ...schema, enum: kept };
}

/** References lead into the definitions wherever they stand. */
function definitionsOf({ $defs, definitions }: JsonObject): JsonObject {
  return { ...($defs === undefined ? {} : { $defs }), ...(definitions === undefined ? {} : { definitions }) };
}

function boundsOf(schema: JsonObject): NumberBounds | undefined {
  const given = BOUNDS.filter((name) => typeof schema[name] === "number");
  return given.length === 0 ? undefined : Object.fromEntries(given.map((name) => [name, Number(schema[name])]));
}

function markOf(index: number): string {
  return `@nereid-number-${index}@`;
}

/** The constant is a part of a text in EBNF, with its quotes: the text ends in front of the range and goes on behind it. */
function complete(ebnf: string, ranges: readonly string[]): string {
  return ebnf.replaceAll(/\\"@nereid-number-(\d+)@\\"/g, (mark, index: string) => {
    const range = ranges[Number(index)];
    return range === undefined ? mark : `" ${range} "`;
  });
}
