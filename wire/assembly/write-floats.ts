/**
 * Writes binary32 as JSON numbers (RFC 8259, section 6). AssemblyScript; compiled by tools/generate-float-kernels.ts.
 *
 * Each float is widened to binary64 and written with the shortest digits that round-trip as binary64, of equally short ones the
 * nearest: what ECMA-262, Number::toString (6.1.6.1.20) prescribes. As in R. Giulietti, "The Schubfach way to render doubles"
 * (2020), the candidates are the multiples of ten and of 100 inside the rounding interval, of a 17-digit decimal here. A
 * mantissa of 24 bits times a power of ten fits 64 bits, so that decimal and its remainder are exact and no table of 126-bit
 * powers is needed. Digits are separated by multiplications (Granlund and Montgomery, "Division by Invariant Integers using
 * Multiplication", 1994). Non-zero values below 10^-4, values from 10^8 on, and NaN stop the kernel.
 */
import { CHECK_HUNDRED, SCALES, Scale, UNSUPPORTED, Vector } from "./float-tables";

const E8: u32 = 100_000_000;
const LOW_WORD: u64 = 0xffff_ffff;

/** Address behind the text of the last call. */
export let writeEnd: usize = 0;

/**
 * Writes a comma and a number for each of the `count` floats at `src`. Needs 32 bytes at `dst` for each, and four readable
 * bytes behind the last float. @returns the number of floats written
 *
 * Software pipelining: the text of a number is made after the next one has been scaled, so that the processor has
 * independent work while it waits for multiplications.
 */
export function writeFloats(src: usize, count: u32, dst: usize): u32 {
  const first = src;
  let end = src + (count << 2);
  let scale: usize = 0;
  let prefix: u64 = 0;
  let fours: v128 = i64x2.splat(0);
  const zero = v128.load(Vector.ZERO);
  const hundredth = v128.load(Vector.HUNDREDTH);
  const hundred = v128.load(Vector.LOWER_HUNDRED);
  const tenth = v128.load(Vector.TENTH);
  const moveTens = v128.load(Vector.MOVE_TENS);
  for (;;) {
    const float = load<u32>(src);
    const nextScale = scaleOf(float);
    const mantissa = (float & 0x7f_ffff) | 0x80_0000;
    const product = u64(mantissa) * load<u64>(nextScale, Scale.FACTOR);
    const product6 = (product & LOW_WORD) * 1_000_000;
    // The last two of 17 digits, with 32 bits of remainder.
    const rest = (product6 & LOW_WORD) * 100;
    const halfUlp = load<u64>(nextScale, Scale.HALF_ULP);
    let tens: u32 = load<u8>(load<u32>(nextScale, Scale.TENS) + u32(rest >> 32));
    if (tens >= CHECK_HUNDRED) {
      if (tens === UNSUPPORTED) end = 0;
      tens = hundredOrTens(rest, tens - CHECK_HUNDRED, halfUlp);
    }
    let high = u32(product >> 32);
    let low = u32(product6 >> 32) * 100 + roundLastTwo(rest, tens, halfUlp);
    // Never carries into a tenth digit: no float but the power of ten itself is that near to one.
    if (low >= E8) {
      low -= E8;
      high += 1;
    }
    // floor(high / 10^8)
    const firstDigit = (u64(high) * 1_441_151_881) >> 57;
    high -= u32(firstDigit) * E8;
    const nextPrefix = load<u64>(nextScale, Scale.PREFIX) + firstDigit * load<u64>(nextScale, Scale.FIRST_DIGIT);
    const nextFours = i64x2.replace_lane(i64x2.splat(splitInFours(high)), 1, splitInFours(low));
    if (scale !== 0)
      dst = writeText(dst, scale, prefix, digitsOf(fours, zero, hundredth, hundred, tenth, moveTens), zero);
    if (src >= end) break;
    scale = nextScale;
    prefix = nextPrefix;
    fours = nextFours;
    src += 4;
  }
  writeEnd = dst;
  return u32(src - first) >> 2;
}

/** Address of the decimal scale: by sign and exponent, and the next one if the float reaches the power of ten. */
function scaleOf(float: u32): usize {
  const magnitude = float & 0x7fff_ffff;
  const scale = SCALES + ((float >> 16) & 0xff80);
  // The sign bit of the difference, moved to Scale.SIZE.
  return scale + (((load<u32>(scale, Scale.LAST_BELOW) - magnitude) >> 25) & u32(Scale.SIZE));
}

/** The nearest multiple of 100 if it is inside the rounding interval, else `tens`. */
function hundredOrTens(rest: u64, tens: u32, halfUlp: u64): u32 {
  const hundred: u32 = rest >> 32 >= 50 ? 100 : 0;
  return isInside(distance(rest, hundred), halfUlp) ? hundred : tens;
}

/**
 * Rounds the last two digits `rest` (32 fraction bits) to `candidate` if that is inside the rounding interval, else to the
 * nearest unit, ties to even. The choice is no branch, because nobody could predict it.
 */
function roundLastTwo(rest: u64, candidate: u32, halfUlp: u64): u32 {
  let rounded = candidate;
  // Halfway between two multiples of ten: the lower one, if the upper one is odd.
  if (distance(rest, rounded) === -5 << 32) rounded -= 10 * ((rounded / 10) & 1);
  const nearest = u32((rest + ((1 << 31) - 1) + ((rest >> 32) & 1)) >> 32);
  return select(rounded, nearest, isInside(distance(rest, rounded), halfUlp));
}

function distance(rest: u64, candidate: u32): i64 {
  return rest - (u64(candidate) << 32);
}

/** |distance| <= halfUlp */
function isInside(distance: i64, halfUlp: u64): bool {
  return u64(distance) + halfUlp <= halfUlp << 1;
}

/** Eight digits as two numbers of four: the upper four in the low 32 bits. */
function splitInFours(eight: u32): u64 {
  const upper = (u64(eight) * 109_951_163) >> 40; // floor(eight / 10^4)
  return (u64(eight) << 32) - upper * ((10_000 << 32) - 1);
}

/** 16 characters of four numbers of four digits: pairs by division by 100, then digits by division by ten. */
function digitsOf(fours: v128, zero: v128, hundredth: v128, hundred: v128, tenth: v128, moveTens: v128): v128 {
  const upperPairs = i32x4.shr_u(i32x4.dot_i16x8_s(fours, hundredth), 19);
  const lowerPairs = i32x4.sub(fours, i32x4.dot_i16x8_s(upperPairs, hundred));
  const pairs = v128.or(upperPairs, i32x4.shl(lowerPairs, 16));
  const tens = i16x8.shr_u(i16x8.mul(pairs, tenth), 10);
  // The pair in the upper byte, less 10 * tens there, plus tens in the lower byte.
  const digits = i16x8.sub(i16x8.shl(pairs, 8), i16x8.mul(tens, moveTens));
  return i8x16.add(digits, zero);
}

/** Prefix and first digit, then the other 16 without trailing zeros. @returns the address behind the text */
function writeText(dst: usize, scale: usize, prefix: u64, digits: v128, zero: v128): usize {
  store<u64>(dst, prefix);
  const at = dst + load<u32>(scale, Scale.PREFIX_LENGTH);
  v128.store(at, digits);
  let used = u32(i8x16.bitmask(i8x16.gt_s(digits, zero)));
  const minDigits = load<u32>(scale, Scale.MIN_DIGITS);
  if (minDigits !== 0) {
    const upper = u64(i64x2.extract_lane(digits, 0));
    const fraction = upper & load<u64>(scale, Scale.FRACTION);
    store<u64>(at - 1, (upper ^ fraction) | load<u64>(scale, Scale.POINT) | (fraction << 8));
    used |= minDigits;
  }
  return at + 32 - clz(used);
}
