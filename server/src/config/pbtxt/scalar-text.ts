/** The numbers and truth values of protobuf text format. Knows the types and their ranges, not the fields. */
import type { ScalarType } from "../model/schema.ts";

const RANGES: Readonly<Record<"int32" | "uint32" | "int64" | "uint64", readonly [bigint, bigint]>> = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  uint32: [0n, 2n ** 32n - 1n],
  // Wider values exist in the format, but no server counts so far, and JavaScript would round them.
  int64: [BigInt(Number.MIN_SAFE_INTEGER), BigInt(Number.MAX_SAFE_INTEGER)],
  // Rounded above 2^53: who writes so large a number means "without end" (as many levels of priority as there are numbers).
  uint64: [0n, 2n ** 64n - 1n],
};
const MAX_FLOAT = 3.4028234663852886e38;

export type IntegerType = keyof typeof RANGES;

export function isIntegerType(type: ScalarType): type is IntegerType {
  return Object.hasOwn(RANGES, type);
}

/** What a field of the type takes, in words for an error. */
export function expectedOf(type: ScalarType): string {
  if (isIntegerType(type)) return type.startsWith("u") ? "a non-negative integer" : "an integer";
  if (type === "bool") return "true or false";
  return type === "string" ? "a quoted text" : "a number";
}

export function rangeText(type: IntegerType): string {
  return `${RANGES[type][0]} to ${RANGES[type][1]}`;
}

/** Decimal, hexadecimal (0x) or octal (leading 0). Undefined: no integer at all. "range": one outside of the type. */
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
