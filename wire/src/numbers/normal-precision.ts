/**
 * A double as RapidJSON 1.1 reads it without kParseFullPrecisionFlag. Source: its reader.h and internal/strtod.h. Up to 17 digits are gathered in a
 * double, and one multiplication or division scales it. Beyond 15 digits or 10^22 the result can be some units of the last place
 * away from the nearest double. Triton reads FP64 elements and parameters so.
 */

const MAX_POWER = 308;
const POWERS: Float64Array = Float64Array.from({ length: MAX_POWER + 1 }, (_, i) => Number(`1e${i}`));
const MAX_FRACTION_START = BigInt(Number.MAX_SAFE_INTEGER);
const MAX_UINT64 = 2n ** 64n - 1n;
const MAX_NEGATIVE = 2n ** 63n;
const MAX_DIGITS = 17;
const MAX_EXPONENT_DIGITS = 9;
/** Integers beyond this get no further digit. */
const LAST_TENFOLD: number = Number.MAX_VALUE / 10;

/** `text`: a JSON number, already checked. @returns undefined where RapidJSON says that it is too big; some others are infinite */
export function readNormalPrecision(text: string): number | undefined {
  const isNegative = text.startsWith("-");
  const parts = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text);
  const whole = parts?.[1] ?? "0";
  const fraction = parts?.[2] ?? "";
  const significand = readSignificand(whole, fraction, isNegative ? MAX_NEGATIVE : MAX_UINT64);
  const exponent = readExponent(parts?.[3] ?? "0");
  if (significand === undefined || (exponent > 9 && exponent > MAX_POWER + significand.numFraction)) return undefined;
  const value = scale(significand.value, exponent - significand.numFraction);
  return isNegative ? -value : value;
}

interface Significand {
  readonly value: number;
  /** Digits behind the point that are part of it. */
  readonly numFraction: number;
}

function readSignificand(whole: string, fraction: string, limit: bigint): Significand | undefined {
  let integer = 0n;
  let at = 0;
  for (; at < whole.length; at++) {
    const next = integer * 10n + BigInt(whole[at] ?? "0");
    if (next > limit) return readLarge(Number(integer), whole.slice(at));
    integer = next;
  }
  return readFraction(integer, at - 1, fraction);
}

/** An integer beyond 64 bits: the fraction no longer counts. */
function readLarge(start: number, digits: string): Significand | undefined {
  let value = start;
  for (const digit of digits) {
    if (value >= LAST_TENFOLD) return undefined;
    value = value * 10 + Number(digit);
  }
  return { value, numFraction: 0 };
}

function readFraction(whole: bigint, numWhole: number, fraction: string): Significand {
  let integer = whole;
  let numDigits = numWhole;
  let used = 0;
  for (; used < fraction.length && integer <= MAX_FRACTION_START; used++) {
    integer = integer * 10n + BigInt(fraction[used] ?? "0");
    if (integer !== 0n) numDigits++;
  }
  let value = Number(integer);
  for (; used < fraction.length && numDigits < MAX_DIGITS; used++) {
    value = value * 10 + Number(fraction[used]);
    if (value > 0) numDigits++;
  }
  return { value, numFraction: used };
}

function readExponent(text: string): number {
  const digits = text.replace(/^[+-]/, "").replace(/^0+/, "");
  const size = digits.length > MAX_EXPONENT_DIGITS ? 10 ** MAX_EXPONENT_DIGITS : Number(digits);
  return text.startsWith("-") ? -size : size;
}

function scale(value: number, power: number): number {
  if (power >= -MAX_POWER) return scaleOnce(value, power);
  return scaleOnce(scaleOnce(value, -MAX_POWER), power + MAX_POWER);
}

function scaleOnce(value: number, power: number): number {
  if (power < -MAX_POWER) return 0;
  return power >= 0 ? value * (POWERS[power] ?? Number.POSITIVE_INFINITY) : value / (POWERS[-power] ?? 1);
}
