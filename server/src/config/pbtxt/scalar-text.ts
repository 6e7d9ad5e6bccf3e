/**
 * Numbers and booleans of the protobuf text format (protobuf.dev, "Text Format Language Specification"). Knows types
 * and ranges, not fields.
 */
import type { ScalarType } from "../model/schema.ts";

const RANGES: Readonly<Record<"int32" | "uint32" | "int64" | "uint64", readonly [bigint, bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  // The format allows wider values, but no setting needs them, and JavaScript would round them.
  int64: [BigInt(Number.MIN_SAFE_INTEGER), BigInt(Number.MAX_SAFE_INTEGER)],
  // Rounded above 2^53: so large a number means "unlimited" (for example a priority level count of 2^64 - 1).
  uint64: [0n, 2n ** 64n - 1n],
};
const MAX_FLOAT = 3.4028234663852886e38;

export type IntegerType = keyof typeof RANGES;

export function isIntegerType(type: ScalarType): type is IntegerType {
  return Object.hasOwn(RANGES, type);
}

/** Expected values of a type, for an error message. */
export function expectedOf(type: ScalarType): string {
  if (isIntegerType(type)) return type.startsWith("u") ? "a non-negative integer" : "an integer";
  if (type === "bool") return "true or false";
  return type === "string" ? "a quoted text" : "a number";
}

export function rangeText(type: IntegerType): string {
  return `${RANGES[type][0]} to ${RANGES[type][1]}`;
}

/** Decimal, hexadecimal (0x) or octal (leading 0). Undefined: no integer. "range": outside of the type. */
export function parseInteger(text: string, type: IntegerType): number | "range" | undefined {
  const [, sign, digits] = /^(-?)(0[xX][0-9a-fA-F]+|0[0-7]+|0|[1-9][0-9]*)$/.exec(text) ?? [];
  if (digits === undefined) return undefined;
  const isOctal = /^0[0-7]/.test(digits);
  const magnitude = BigInt(isOctal ? `0o${digits.slice(1)}` : digits);
  const value = sign === "-" ? -magnitude : magnitude;
  const [low, high] = RANGES[type];
  return value < low || value > high ? "range" : Number(value);
}

const SPECIAL_FLOATS: ReadonlyMap<string, number> = new Map([
  ["inf", Number.POSITIVE_INFINITY],
  ["infinity", Number.POSITIVE_INFINITY],
  ["nan", Number.NaN],
]);

/** A decimal number, with or without a fraction and a trailing `f`; inf, infinity and nan in any case. */
export function parseFloatText(text: string, type: "float" | "double"): number | undefined {
  const isNegative = text.startsWith("-");
  const bare = isNegative ? text.slice(1) : text;
  const special = SPECIAL_FLOATS.get(bare.toLowerCase());
  if (special !== undefined) return isNegative ? -special : special;
  if (!/^(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?$/.test(bare)) return undefined;
  const value = Number(bare.replace(/[fF]$/, ""));
  const bounded = type === "float" && value > MAX_FLOAT ? Number.POSITIVE_INFINITY : value;
  return isNegative ? -bounded : bounded;
}

export function parseBooleanText(text: string): boolean | undefined {
  if (["true", "True", "t", "1"].includes(text)) return true;
  return ["false", "False", "f", "0"].includes(text) ? false : undefined;
}
