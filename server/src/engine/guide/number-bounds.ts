/**
 * JSON schemas whose bounds of numbers the grammar library reads rightly. A range that is open at one end lets wrong numbers
 * through there ("minimum": 3 lets 1 and 2), or malformed ones ("minimum": -3 lets "-"), and so does a bound with a fraction.
 * Source: JSON Schema 2020-12, validation, 6.2; grammars that xgrammar makes of such schemas.
 */

/** Fifteen digits: each makes the grammar longer, and more are not exact in every reader. */
const LARGEST = 10 ** 15 - 1;
/** Keywords with values, not schemas. */
const VALUES: ReadonlySet<string> = new Set(["enum", "const", "default", "examples"]);

/** Every range closed, with whole bounds. Bounds of integers stay exact, bounds of numbers lose their fraction. Pure. */
export function withClosedBounds(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withClosedBounds);
  if (typeof schema !== "object" || schema === null) return schema;
  const entries = Object.entries(schema).map(([key, value]) => [
    key,
    VALUES.has(key) ? value : withClosedBounds(value),
  ]);
  return closed(Object.fromEntries(entries));
}

function closed(schema: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const types: readonly unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type];
  const isInteger = types.includes("integer");
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, ...rest } = schema;
  const lower = [lowerOf(minimum, isInteger), exclusiveLower(exclusiveMinimum, isInteger)].filter(isNumber);
  const upper = [upperOf(maximum, isInteger), exclusiveUpper(exclusiveMaximum, isInteger)].filter(isNumber);
  const isOther = !isInteger && !types.includes("number");
  if (isOther || (lower.length === 0 && upper.length === 0)) return schema;
  return { ...rest, minimum: Math.max(-LARGEST, ...lower), maximum: Math.min(LARGEST, ...upper) };
}

function isNumber(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

function lowerOf(value: unknown, isInteger: boolean): unknown {
  if (!isNumber(value)) return undefined;
  return isInteger ? Math.ceil(value) : Math.trunc(value);
}

function upperOf(value: unknown, isInteger: boolean): unknown {
  if (!isNumber(value)) return undefined;
  return isInteger ? Math.floor(value) : Math.trunc(value);
}

function exclusiveLower(value: unknown, isInteger: boolean): unknown {
  return isNumber(value) && isInteger ? Math.floor(value) + 1 : lowerOf(value, isInteger);
}

function exclusiveUpper(value: unknown, isInteger: boolean): unknown {
  return isNumber(value) && isInteger ? Math.ceil(value) - 1 : upperOf(value, isInteger);
}
