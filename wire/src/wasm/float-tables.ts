/**
 * The constants that the kernels for floats look up, and where in their memory they lie. Numbers that are too large for a
 * double are made with big integers, once.
 */

/** Addresses in the memory. */
export const TABLES = {
  /** Sixteen bytes of zeros, 32 of ones, sixteen of zeros: read from n on, they keep the last n of sixteen... */
  lastBytes: 0,
  /** ...and read n in front of this, the first n, up to 32. */
  firstBytesEnd: 48,
  /** For each number of digits behind the point, up to 31, the bits of the least double of which sixteen of them say enough. */
  least: 64,
  /** See `fillTens()`. */
  tens: 1024,
  /** Two for each sign and exponent. */
  scales: 4096,
  end: 69_632,
} as const;

/** Addresses of vectors of the writer: eight numbers of 16 bits each. */
export const VECTORS = {
  /** Of 2^19, rounded up, and of each 32 bits the lower half alone. */
  hundredths: 512,
  hundreds: 528,
  /** Of 2^10, rounded up, and what makes two bytes of two digits of their number and its tenth. */
  tenths: 544,
  tens: 560,
  /** The digit, as a character. */
  zeros: 576,
} as const;

/** Addresses of vectors of the reader. */
export const READER_VECTORS = {
  /** Added to characters it makes digits the largest numbers with a sign that a byte holds: they alone reach the second. */
  toTop: 640,
  top: 656,
  commas: 672,
  zeros: 688,
  /** Digits to pairs, fours, eights. */
  pairs: 704,
  fours: 720,
  eights: 736,
  /** Two numbers of eight digits as a whole number, as the first digits behind the point, and as the next. */
  whole: 752,
  fraction: 768,
  farFraction: 784,
} as const;

/** Where the parts of a scale lie in it. */
export const SCALE = {
  factor: 0,
  half: 8,
  /** What stands in front of the digits, with a zero for the first of them, and what the digit counts there. */
  head: 16,
  place: 24,
  /** Characters in front of the second digit. */
  numBefore: 32,
  /** The bits of the largest float that it is for; more are for the next. */
  limit: 36,
  /** Address of the bytes for numbers like these. */
  tens: 40,
  /** Where a digit has to be whatever it is, counted from the second on: the bit of the one behind the point, if that is there. */
  least: 44,
  /** Of the digits from the second to the ninth those behind the point, and the point in front of them. */
  behind: 48,
  point: 56,
  numBytes: 64,
} as const;
/** Powers of ten of the first digit of the usual numbers. */
const MIN_POWER = -4;
const MAX_POWER = 7;
/** Of the least double for which digits behind the sixteenth make no difference. */
const LEAST_EXPONENT = -13;
const NUM_EXPONENTS = 256;
const NO_LIMIT = 0x7fff_ffff;
const SINGLE_BIAS = 150;
/** Marks of bytes of `tens`. */
export const CAREFUL = 128;
export const UNUSUAL = 255;
const TENS_BYTES = 128;
const NUM_TWO_DIGITS = 100;
/** Half of the distance between two doubles is less than this in units of the seventeenth digit. */
const MAX_HALF = 12;

/** Each byte is written with what it holds in the end: others may be using the same tables. */
export function fillTables(buffer: ArrayBufferLike): void {
  new Uint8Array(buffer, TABLES.lastBytes, 64).fill(255, 16, 48);
  new Float64Array(buffer, TABLES.least, 32).fill(2 ** LEAST_EXPONENT, 17);
  fillReaderVectors(buffer);
  fillWriterVectors(buffer);
  for (let half = 0; half < MAX_HALF; half++) fillTens(new Uint8Array(buffer, tensAt(half), NUM_TWO_DIGITS), half);
  new Uint8Array(buffer, tensAt(MAX_HALF), NUM_TWO_DIGITS).fill(UNUSUAL);
  for (let exponent = 0; exponent < NUM_EXPONENTS; exponent++) {
    fillScales(buffer, exponent, 0);
    fillScales(buffer, exponent, 1);
  }
}

function fillReaderVectors(buffer: ArrayBufferLike): void {
  new Uint8Array(buffer, READER_VECTORS.toTop, 16).fill(0x46);
  new Uint8Array(buffer, READER_VECTORS.top, 16).fill(0x76);
  new Uint8Array(buffer, READER_VECTORS.commas, 16).fill(0x2c);
  new Uint8Array(buffer, READER_VECTORS.zeros, 16).fill(0x30);
  new Uint16Array(buffer, READER_VECTORS.pairs, 8).fill((10 << 8) + 1);
  // Little-endian: the first digits are the lower half.
  new Uint32Array(buffer, READER_VECTORS.fours, 4).fill(100 + (1 << 16));
  new Uint32Array(buffer, READER_VECTORS.eights, 4).fill(10_000 + (1 << 16));
  new Float64Array(buffer, READER_VECTORS.whole, 2).set([1e8, 1]);
  new Float64Array(buffer, READER_VECTORS.fraction, 2).set([1e-8, 1e-16]);
  new Float64Array(buffer, READER_VECTORS.farFraction, 2).set([1e-24, 1e-32]);
}

function fillWriterVectors(buffer: ArrayBufferLike): void {
  new Uint32Array(buffer, VECTORS.hundredths, 4).fill(5243);
  new Uint32Array(buffer, VECTORS.hundreds, 4).fill(100);
  new Uint16Array(buffer, VECTORS.tenths, 8).fill(103);
  new Uint16Array(buffer, VECTORS.tens, 8).fill((10 << 8) - 1);
  new Uint8Array(buffer, VECTORS.zeros, 16).fill(0x30);
}

/** For floats of one exponent: below and from a power of ten on. */
function fillScales(buffer: ArrayBufferLike, exponent: number, sign: number): void {
  const at = TABLES.scales + 2 * (sign * NUM_EXPONENTS + exponent) * SCALE.numBytes;
  const below = new DataView(buffer, at, SCALE.numBytes);
  const above = new DataView(buffer, at + SCALE.numBytes, SCALE.numBytes);
  const lower = Math.floor(Math.log10(2 ** (exponent - 127)));
  fillScale(above, exponent, lower + 1, sign);
  if (exponent === 0) {
    fillZero(below, sign);
    return;
  }
  const limit = bitsOfPower(lower + 1);
  below.setInt32(SCALE.limit, limit >>> 23 === exponent ? limit - 1 : NO_LIMIT, true);
  fillScale(below, exponent, lower, sign);
}

function fillScale(view: DataView, exponent: number, d: number, sign: number): void {
  if (d < MIN_POWER || d > MAX_POWER) {
    view.setInt32(SCALE.tens, tensAt(MAX_HALF), true);
  } else {
    writeFactors(view, exponent, d);
    writePlaces(view, sign, d);
  }
}

/** For nothing but zero. */
function fillZero(view: DataView, sign: number): void {
  view.setInt32(SCALE.limit, 0, true);
  view.setInt32(SCALE.tens, tensAt(0), true);
  writePlaces(view, sign, 0);
}

/**
 * For a float m * 2^s from 10^d on: the factor for m that gives nine digits with 32 bits behind them, exactly, and half the
 * distance to the next double in units of the seventeenth digit, with 32 bits behind them.
 */
function writeFactors(view: DataView, exponent: number, d: number): void {
  const s = exponent - SINGLE_BIAS;
  view.setBigUint64(SCALE.factor, times2(10n ** BigInt(Math.max(8 - d, 0)), 32 + s), true);
  // Never met exactly: what is less than the half is at most this.
  const half = times2(10n ** BigInt(16 - d), s + 2);
  view.setBigUint64(SCALE.half, half, true);
  view.setInt32(SCALE.tens, tensAt(Number(half >> 32n)), true);
}

/** A comma, a minus, a zero, the point and zeros, as far as they stand there. */
function writePlaces(view: DataView, sign: number, d: number): void {
  const head = `,${sign === 1 ? "-" : ""}${d < 0 ? `0.${"0".repeat(-d - 1)}` : ""}0`;
  for (let i = 0; i < head.length; i++) view.setUint8(SCALE.head + i, head.charCodeAt(i));
  view.setUint8(SCALE.place + head.length - 1, 1);
  view.setInt32(SCALE.numBefore, d < 0 ? head.length : head.length + 1, true);
  if (d < 0) return;
  view.setInt32(SCALE.least, 1 << d, true);
  for (let i = d; i < 8; i++) view.setUint8(SCALE.behind + i, 255);
  view.setUint8(SCALE.point + d, 0x2e);
}

function tensAt(half: number): number {
  return TABLES.tens + half * TENS_BYTES;
}

/**
 * For each two digits, with something behind them, the nearest multiple of ten, the upper one of two: marked where 0 or 100
 * is not that but may be as near as `half` and a unit.
 */
function fillTens(tens: Uint8Array, half: number): void {
  for (let two = 0; two < NUM_TWO_DIGITS; two++) {
    const fromHundred = Math.min(two, NUM_TWO_DIGITS - 1 - two);
    const isMarked = fromHundred >= 5 && fromHundred <= half;
    tens[two] = Math.floor((two + 5) / 10) * 10 + (isMarked ? CAREFUL : 0);
  }
}

/** By a power of two; exact where it is used. */
function times2(value: bigint, power: number): bigint {
  return power >= 0 ? value << BigInt(power) : value >> BigInt(-power);
}

/** The bits of the smallest float that is not below 10^d. */
function bitsOfPower(d: number): number {
  const power = Number(`1e${d}`);
  const float = Float32Array.of(power);
  const bits = new Uint32Array(float.buffer)[0] ?? 0;
  return (float[0] ?? 0) < power ? bits + 1 : bits;
}
