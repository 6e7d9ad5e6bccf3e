/**
 * The parts of JSON that many readers and writers share: the test of an object, and unsigned 64-bit settings. These are
 * kept as numbers, for above 2^53 they mean "unlimited", and the largest of all is common (RFC 8259, section 6).
 */

export type JsonObject = Readonly<Record<string, unknown>>;

/** Neither null nor an array. */
export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const MAX_UINT64 = 2n ** 64n - 1n;
/** The number that the largest value rounds to. */
const ROUNDED_MAX = 2 ** 64;
/** No text of a configuration contains it. */
const MARK = "\0uint64:";

/** All digits: those of the largest value, or those of the number. */
export function uint64Text(value: number): string {
  return value === ROUNDED_MAX ? String(MAX_UINT64) : BigInt(value).toString();
}

/** `JSON.stringify` with all digits of whole numbers above 2^53 up to 2^64. */
export function jsonWithUint64(value: unknown): string {
  let isMarked = false;
  const text = JSON.stringify(value, (_, member: unknown) => {
    if (typeof member !== "number" || member <= Number.MAX_SAFE_INTEGER || member > ROUNDED_MAX) return member;
    isMarked = true;
    return MARK + uint64Text(member);
  });
  return isMarked ? text.replace(/"\\u0000uint64:(\d+)"/g, "$1") : text;
}
