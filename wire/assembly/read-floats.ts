/**
 * Reads the numbers of a JSON array (RFC 8259, section 6) into binary32. AssemblyScript; compiled by
 * tools/generate-float-kernels.ts.
 *
 * Characters are classified 32 at a time and 16 digits are converted at once, as in W. Muła, "SIMD-ized parsing of unsigned
 * integers" and D. Lemire, "Number Parsing at a Gigabyte per Second" (2021). The value is a double with a bounded error. It
 * decides the rounding unless it is too near to the middle of two floats: the Bellerophon test of W. Clinger, "How to Read
 * Floating Point Numbers Accurately" (1990). Numbers near the middle, and other forms (exponents, 16 integer digits), stop the kernel.
 */
import { KEEP_FIRST, KEEP_LAST, LEAST_FOR_16_DIGITS, Vector } from "./float-tables";

const COMMA: u32 = 0x2c;
const SPACE: u32 = 0x20;
const MINUS: u32 = 0x2d;
const POINT: u32 = 0x2e;
const ZERO: u32 = 0x30;
const LETTER_E: u32 = 0x65;
/** Bit that makes an ASCII letter lower case. */
const LOWER_CASE: u32 = 0x20;
const MAX_INTEGER_DIGITS: u32 = 15;
/**
 * Bound of the error, in ulps of the double. Fraction digits behind the 16th are up to 10^-16, which is 3690 ulps of the
 * least double that is read without them (2^-13); rounding adds a few.
 */
const MAX_ERROR: u32 = 4096;
/** Bits that a binary64 fraction has more than a binary32 one: 52 - 23. */
const EXTRA_BITS: u32 = 29;

/** Address where the last call stopped: of the comma in front of the next number, if there is one. */
export let readEnd: usize = 0;

/**
 * Reads a comma and a number again and again from `at` on and stores up to `max` floats at `out`. 64 bytes before and behind
 * the text must be readable. @returns the number of floats; `readEnd` is where it stopped
 */
export function readFloats(at: usize, end: usize, out: usize, max: u32): u32 {
  const firstOut = out;
  const outEnd = load<u8>(at) === COMMA ? out + (max << 2) : out;
  const commas = v128.load(Vector.COMMA);
  const toTop = v128.load(Vector.TO_TOP);
  const top = v128.load(Vector.TOP);
  const zero = v128.load(Vector.ZERO);
  const ten = v128.load(Vector.TEN);
  const hundred = v128.load(Vector.HUNDRED);
  const tenThousand = v128.load(Vector.TEN_THOUSAND);
  while (out < outEnd) {
    let start = at + 1;
    if (load<u8>(start) === SPACE) start += 1;
    const lower = v128.load(start);
    const upper = v128.load(start, 16);
    let commaAt = start + ctz(bitmask(i8x16.eq(lower, commas), i8x16.eq(upper, commas)));
    // A branch that needs the address now: else V8 sinks its computation to the end of the loop.
    if (commaAt >= end) commaAt = 0;
    const isNegative = u32(load<u8>(start) === MINUS);
    // A bit for each character that is no digit, except for the sign.
    let others = bitmask(isNoDigit(lower, toTop, top), isNoDigit(upper, toTop, top)) ^ isNegative;
    let next = start + ctz(others);
    let value = integerPart(start + isNegative, next, zero, ten, hundred, tenThousand);
    if (load<u8>(next) === POINT) {
      const fractionAt = next + 1;
      others &= others - 1;
      next = start + ctz(others);
      value = addFraction(value, fractionAt, next - fractionAt, zero, ten, hundred, tenThousand);
    } else if (isNegative & u32(value === 0)) break; // "-0" is an integer and has no sign
    // No other character: the number has no end in sight.
    if (others === 0 || next >= end || !isCertain(value) || isExponent(next, commaAt)) break;
    store<u32>(out, reinterpret<u32>(f32(value)) | (isNegative << 31));
    out += 4;
    at = next;
    if (next !== commaAt) break;
    // The same address, known sooner: the next number begins while this one is still being computed.
    at = commaAt;
  }
  readEnd = at;
  return u32(out - firstOut) >> 2;
}

/** The digits from `first` to `end`, exactly; NaN if there are none, more than 15, or a leading zero. */
function integerPart(first: usize, end: usize, zero: v128, ten: v128, hundred: v128, tenThousand: v128): f64 {
  const numDigits = u32(end - first);
  const digit = load<u8>(first) - ZERO;
  if (numDigits === 1) return f64(i32(digit));
  if (numDigits - 1 >= MAX_INTEGER_DIGITS || digit === 0) return NaN;
  const mask = v128.load(KEEP_LAST + numDigits);
  return weightedSum(convertDigits(v128.load(end - 16), mask, zero, ten, hundred, tenThousand), Vector.INTEGER);
}

/** Adds the `numDigits` digits at `at` to `integer`; NaN if there are none. The second 16 digits count for small numbers only. */
function addFraction(
  integer: f64,
  at: usize,
  numDigits: usize,
  zero: v128,
  ten: v128,
  hundred: v128,
  tenThousand: v128,
): f64 {
  if (numDigits === 0) return NaN;
  const mask = KEEP_FIRST - numDigits;
  const first = convertDigits(v128.load(at), v128.load(mask), zero, ten, hundred, tenThousand);
  const value = integer + weightedSum(first, Vector.FRACTION);
  if (value >= load<f64>(LEAST_FOR_16_DIGITS + (numDigits << 3))) return value;
  const second = convertDigits(v128.load(at, 16), v128.load(mask, 16), zero, ten, hundred, tenThousand);
  return value + weightedSum(second, Vector.FAR_FRACTION);
}

function bitmask(lower: v128, upper: v128): u32 {
  return i8x16.bitmask(lower) | (i8x16.bitmask(upper) << 16);
}

/** Adding `toTop` makes digits the ten largest signed bytes, from `top` on. */
function isNoDigit(characters: v128, toTop: v128, top: v128): v128 {
  return i8x16.lt_s(i8x16.add(characters, toTop), top);
}

/** Two numbers of eight digits each, as doubles, by pairs and fours. Characters that `mask` clears count as 0. */
function convertDigits(characters: v128, mask: v128, zero: v128, ten: v128, hundred: v128, tenThousand: v128): v128 {
  const digits = v128.and(i8x16.sub(characters, zero), mask);
  const pairs = i16x8.shr_u(i16x8.mul(digits, ten), 8);
  const fours = i32x4.dot_i16x8_s(pairs, hundred);
  const eights = i32x4.dot_i16x8_s(i16x8.narrow_i32x4_s(fours, fours), tenThousand);
  return f64x2.convert_low_i32x4_s(eights);
}

/** `weights`: address of the two weights. */
function weightedSum(numbers: v128, weights: usize): f64 {
  const products = f64x2.mul(numbers, v128.load(weights));
  return f64x2.extract_lane(products, 0) + f64x2.extract_lane(products, 1);
}

/** Whether the rounding of a double to a float is certain: it is a number, and not within MAX_ERROR of the middle of two floats. */
function isCertain(value: f64): bool {
  const shift = 32 - EXTRA_BITS;
  const middle: u32 = 1 << (EXTRA_BITS - 1);
  // Below the interval the unsigned difference wraps around.
  const above = (u32(reinterpret<u64>(value)) << shift) - ((middle - MAX_ERROR) << shift);
  return value >= 0 && above > (2 * MAX_ERROR) << shift;
}

function isExponent(at: usize, commaAt: usize): bool {
  return at !== commaAt && (load<u8>(at) | LOWER_CASE) === LETTER_E;
}
