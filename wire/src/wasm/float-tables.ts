/**
 * The constants that the kernels for floats look up, and where in their memory they lie. Numbers that are too large for a
 * double are made with big integers, once.
 */

/** Addresses in the memory. */
export const TABLES = {
  /** Powers of ten as doubles, from 1 to 10^22. */
  doubles: 0,
  /** Powers of ten as integers of 64 bits, from 1 to 10^19. */
  longs: 192,
  /** Sixteen bytes of zeros and sixteen of ones: read from n on, they keep the last n of sixteen. */
  lastBytes: 384,
  /** Two scales for each exponent of a float, below and from its power of ten on. */
  scales: 512,
  end: 4096,
} as const;

/** Addresses of vectors of the writer: eight numbers of 16 bits each. */
export const VECTORS = {
  /** Of 2^19, rounded up, and of each 32 bits the lower half alone. */
  hundredths: 3072,
  hundreds: 3088,
  /** Of 2^10, rounded up. */
  tenths: 3104,
  tens: 3120,
  /** The digit, as a character. */
  zeros: 3136,
} as const;

/** Where the parts of a scale lie in it. */
export const SCALE = { factor: 0, half: 8, exponent: 16, limit: 20, numBytes: 32 } as const;
/** The exponents, as floats have them, that have scales: from 2^-14 on, up to 2^24. */
export const FIRST_EXPONENT = 113;
const LAST_EXPONENT = 150;
const NO_LIMIT = 0xffff_ffff;
const NUM_DOUBLES = 23;
const NUM_LONGS = 20;
const SINGLE_BIAS = 150;

export function fillTables(buffer: ArrayBufferLike): void {
  const doubles = new Float64Array(buffer, TABLES.doubles, NUM_DOUBLES);
  for (let i = 0; i < NUM_DOUBLES; i++) doubles[i] = Number(`1e${i}`);
  const longs = new BigUint64Array(buffer, TABLES.longs, NUM_LONGS);
  for (let i = 0; i < NUM_LONGS; i++) longs[i] = 10n ** BigInt(i);
  new Uint8Array(buffer, TABLES.lastBytes, 32).fill(255, 16);
  new Uint32Array(buffer, VECTORS.hundredths, 4).fill(5243);
  new Uint32Array(buffer, VECTORS.hundreds, 4).fill(100);
  new Uint16Array(buffer, VECTORS.tenths, 8).fill(103);
  new Uint16Array(buffer, VECTORS.tens, 8).fill(10);
  new Uint8Array(buffer, VECTORS.zeros, 16).fill(0x30);
  const view = new DataView(buffer, TABLES.scales);
  for (let exponent = FIRST_EXPONENT; exponent <= LAST_EXPONENT; exponent++) {
    const at = 2 * (exponent - FIRST_EXPONENT) * SCALE.numBytes;
    const lower = Math.floor(Math.log10(2 ** (exponent - 127)));
    writeScale(view, at, exponent, lower);
    writeScale(view, at + SCALE.numBytes, exponent, lower + 1);
    const limit = bitsOfPower(lower + 1);
    view.setUint32(at + SCALE.limit, limit >>> 23 === exponent ? limit : NO_LIMIT, true);
  }
}

/**
 * For a float m * 2^s from 10^d on: the factor for m that gives nine digits with 32 bits behind them, exactly, and half the
 * distance to the next double in units of the seventeenth digit, with 32 bits behind them.
 */
function writeScale(view: DataView, at: number, exponent: number, d: number): void {
  const s = exponent - SINGLE_BIAS;
  view.setBigUint64(at + SCALE.factor, times2(10n ** BigInt(Math.max(8 - d, 0)), 32 + s), true);
  // Never met exactly: what is less than the half is at most this.
  const half = 10n ** BigInt(16 - d);
  view.setBigUint64(at + SCALE.half, s + 2 >= 0 ? half << BigInt(s + 2) : half >> BigInt(-s - 2), true);
  view.setInt32(at + SCALE.exponent, d, true);
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
