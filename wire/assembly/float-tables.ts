/**
 * Lookup tables of the float kernels, and their addresses. AssemblyScript; compiled by
 * tools/generate-float-kernels.ts. The decimal scales are exact because of the bounds in write-floats.ts (Giulietti
 * 2020). Kernels of several threads share one memory, so each byte is only ever written with its final value.
 */

/** 16 bytes of 0, 32 of 0xff, 16 of 0. Loaded from n on: keeps the last n of 16 bytes. */
export const KEEP_LAST: usize = 0;
/** Loaded n bytes in front of this address: keeps the first n bytes, n <= 32. */
export const KEEP_FIRST: usize = 48;
/** u64 by number of fraction digits (0 to 31): bits of the least double that 16 fraction digits determine well enough. */
export const LEAST_FOR_16_DIGITS: usize = 64;
/** Vectors that functions load into locals: V8 builds a constant vector anew at each use, with four instructions on x64. */
export namespace Vector {
  /** u8 */
  export const COMMA: usize = 512;
  export const ZERO: usize = 528;
  /** i8: makes digits the ten largest bytes, and the least of these. */
  export const TO_TOP: usize = 544;
  export const TOP: usize = 560;
  /** Weights of neighbouring digits (u8), pairs (i16), and groups of four (i16). */
  export const TEN: usize = 576;
  export const HUNDRED: usize = 592;
  export const TEN_THOUSAND: usize = 608;
  /** f64: weights of two groups of eight digits, in an integer and in the first and second 16 digits of a fraction. */
  export const INTEGER: usize = 624;
  export const FRACTION: usize = 640;
  export const FAR_FRACTION: usize = 656;
  /** i32: 2^19 / 100 rounded up, and 100, in the lower half of each. */
  export const HUNDREDTH: usize = 672;
  export const LOWER_HUNDRED: usize = 688;
  /** u16: 2^10 / 10 rounded up, and what takes ten tens out of the upper byte and puts them into the lower. */
  export const TENTH: usize = 704;
  export const MOVE_TENS: usize = 720;
}
/** See fillTens(). */
export const TENS: usize = 1024;
/**
 * Decimal scales by sign (1 bit), exponent (8 bits) and "from the power of ten on" (1 bit). They end at FIRST_FREE_BYTE of
 * wire/src/numbers/float-memory.ts.
 */
export const SCALES: usize = 4096;

/** Fields of a decimal scale, and its size. */
export namespace Scale {
  /** u64: 10^(8-d) * 2^(s+32), which makes nine digits and 32 fraction bits of a 24-bit mantissa. */
  export const FACTOR: usize = 0;
  /** u64: half an ulp of the double in units of the 17th digit, with 32 fraction bits. */
  export const HALF_ULP: usize = 8;
  /** u64: characters in front of the second digit, the first digit as '0'. */
  export const PREFIX: usize = 16;
  /** u64: 1 at the byte of the first digit. */
  export const FIRST_DIGIT: usize = 24;
  /** u32: characters in front of the second digit. */
  export const PREFIX_LENGTH: usize = 32;
  /** i32: bits of the largest float below the power of ten that this exponent contains; larger ones use the next scale. */
  export const LAST_BELOW: usize = 36;
  /** u32: address of the table of fillTens() for this half ulp. */
  export const TENS: usize = 40;
  /** u32: bit of the first fraction digit, counted from the second digit; it is written even if it is 0. */
  export const MIN_DIGITS: usize = 44;
  /** u64: 0xff at those of the second to ninth digit that belong to the fraction. */
  export const FRACTION: usize = 48;
  /** u64: the point at its byte. */
  export const POINT: usize = 56;
  export const SIZE: usize = 64;
}

/** Decimal exponents of the first digit that are written here. */
const MIN_EXPONENT: i32 = -4;
const MAX_EXPONENT: i32 = 7;
const NUM_BINARY_EXPONENTS: i32 = 256;
/** Exponent bias of a binary32 whose mantissa is an integer (IEEE 754-2019, 3.4). */
const MANTISSA_BIAS: i32 = 150;
/** Half an ulp of a double is less than 12 units of its 17th digit: 10^17 * 2^-53 = 11.1. */
const MAX_HALF_ULP: i32 = 12;
const TENS_SIZE: i32 = 128;
/** Flag of TENS: 0 or 100 may be in the rounding interval too. */
export const CHECK_HUNDRED: u32 = 128;
/** Table of scales outside of the decimal exponents. */
export const UNSUPPORTED: u32 = 255;
const LEAST_FOR_MANY_DIGITS: f64 = 1.0 / 8192;

export function fillTables(): void {
  memory.fill(KEEP_LAST + 16, 0xff, 32);
  for (let numDigits = 17; numDigits < 32; numDigits++) {
    store<f64>(LEAST_FOR_16_DIGITS + 8 * numDigits, LEAST_FOR_MANY_DIGITS);
  }
  v128.store(Vector.COMMA, i8x16.splat(0x2c));
  v128.store(Vector.ZERO, i8x16.splat(0x30));
  v128.store(Vector.TO_TOP, i8x16.splat(0x46));
  v128.store(Vector.TOP, i8x16.splat(0x76));
  v128.store(Vector.TEN, i16x8.splat((10 << 8) + 1));
  v128.store(Vector.HUNDRED, i32x4.splat(100 + (1 << 16)));
  v128.store(Vector.TEN_THOUSAND, i32x4.splat(10_000 + (1 << 16)));
  v128.store(Vector.INTEGER, f64x2(1e8, 1));
  v128.store(Vector.FRACTION, f64x2(1e-8, 1e-16));
  v128.store(Vector.FAR_FRACTION, f64x2(1e-24, 1e-32));
  v128.store(Vector.HUNDREDTH, i32x4.splat(5243));
  v128.store(Vector.LOWER_HUNDRED, i32x4.splat(100));
  v128.store(Vector.TENTH, i16x8.splat(103));
  v128.store(Vector.MOVE_TENS, i16x8.splat((10 << 8) - 1));
  for (let halfUlp = 0; halfUlp < MAX_HALF_ULP; halfUlp++) fillTens(halfUlp);
  memory.fill(tensFor(MAX_HALF_ULP), u8(UNSUPPORTED), 100);
  for (let exponent = 0; exponent < NUM_BINARY_EXPONENTS; exponent++) {
    fillScales(exponent, 0);
    fillScales(exponent, 1);
  }
}

function tensFor(halfUlp: i32): usize {
  return TENS + halfUlp * TENS_SIZE;
}

/**
 * For each value of the last two digits the nearest multiple of ten, of two the upper. Flagged where a multiple of 100 may lie
 * within half an ulp without being the nearest multiple of ten.
 */
function fillTens(halfUlp: i32): void {
  for (let lastTwo = 0; lastTwo < 100; lastTwo++) {
    const fromHundred = min(lastTwo, 99 - lastTwo);
    const flag = fromHundred >= 5 && fromHundred <= halfUlp ? CHECK_HUNDRED : 0;
    store<u8>(tensFor(halfUlp) + lastTwo, ((lastTwo + 5) / 10) * 10 + flag);
  }
}

/** A binary exponent contains at most one power of ten: one scale below it, one from it on. */
function fillScales(exponent: i32, sign: i32): void {
  const below = SCALES + 2 * (sign * NUM_BINARY_EXPONENTS + exponent) * Scale.SIZE;
  const lower = floorLog10Pow2(exponent - 127);
  fillScale(below + Scale.SIZE, exponent, lower + 1, sign);
  if (exponent === 0) {
    // Zero only: subnormal floats are larger than LAST_BELOW.
    store<u32>(below, tensFor(0), Scale.TENS);
    fillText(below, sign, 0);
    return;
  }
  const power = bitsOfPower10(lower + 1);
  store<i32>(below, power >>> 23 === exponent ? power - 1 : i32.MAX_VALUE, Scale.LAST_BELOW);
  fillScale(below, exponent, lower, sign);
}

/** `d`: decimal exponent of the first digit. */
function fillScale(scale: usize, exponent: i32, d: i32, sign: i32): void {
  if (d < MIN_EXPONENT || d > MAX_EXPONENT) {
    store<u32>(scale, tensFor(MAX_HALF_ULP), Scale.TENS);
    return;
  }
  const s = exponent - MANTISSA_BIAS;
  store<u64>(scale, power10TimesPower2(8 - d, s + 32), Scale.FACTOR);
  // Rounded down: no distance equals it, because it is no multiple of 2^-32.
  const halfUlp = power10TimesPower2(16 - d, s + 2);
  store<u64>(scale, halfUlp, Scale.HALF_ULP);
  store<u32>(scale, tensFor(i32(halfUlp >> 32)), Scale.TENS);
  fillText(scale, sign, d);
}

/** Comma, minus sign, "0." and zeros, as far as a number of this sign and decimal exponent has them. */
function fillText(scale: usize, sign: i32, d: i32): void {
  let length: usize = 0;
  store<u8>(scale + length++, 0x2c, Scale.PREFIX);
  if (sign === 1) store<u8>(scale + length++, 0x2d, Scale.PREFIX);
  if (d < 0) {
    store<u8>(scale + length++, 0x30, Scale.PREFIX);
    store<u8>(scale + length++, 0x2e, Scale.PREFIX);
    for (let i = d; i < -1; i++) store<u8>(scale + length++, 0x30, Scale.PREFIX);
  }
  store<u8>(scale + length, 0x30, Scale.PREFIX);
  store<u8>(scale + length, 1, Scale.FIRST_DIGIT);
  // From 1 on, the point goes between the first digits later.
  store<u32>(scale, u32(length) + (d < 0 ? 1 : 2), Scale.PREFIX_LENGTH);
  if (d < 0) return;
  store<u32>(scale, 1 << d, Scale.MIN_DIGITS);
  for (let i = d; i < 8; i++) store<u8>(scale + i, 0xff, Scale.FRACTION);
  store<u8>(scale + d, 0x2e, Scale.POINT);
}

/** floor(log10(2^e)) for |e| <= 1650 (Giulietti, "The Schubfach way to render doubles", section 9.3.1). */
function floorLog10Pow2(e: i32): i32 {
  return (e * 1_262_611) >> 22;
}

/** 10^k * 2^p, rounded down. */
function power10TimesPower2(k: i32, p: i32): u64 {
  let power5: u64 = 1;
  for (let i = 0; i < k; i++) power5 *= 5;
  const shift = k + p;
  return shift >= 0 ? power5 << shift : power5 >> -shift;
}

/** Bits of the least float that is not below 10^d. */
function bitsOfPower10(d: i32): i32 {
  let power: f64 = 1;
  for (let i = 0; i < abs(d); i++) power *= 10;
  if (d < 0) power = 1 / power;
  const float = f32(power);
  return reinterpret<i32>(float) + i32(f64(float) < power);
}
