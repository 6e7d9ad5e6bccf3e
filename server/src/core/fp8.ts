/**
 * FP8 E4M3 without infinities (OCP 8-bit Floating Point Specification, E4M3; Micikevicius et al. 2022). It knows no
 * tensor.
 */

export const FP8_MAX = 448;
const EXPONENT_BIAS = 7;
const FRACTION_BITS = 3;
const NUM_VALUES = 256;
/** Smaller exponents are subnormal and have no implicit bit. */
const SMALLEST_EXPONENT: number = 1 - EXPONENT_BIAS;
/** Reciprocal spacing of the values of each exponent, from the smallest on; powers of two, so that scaling is exact. */
const STEPS_PER_ONE: Float64Array = Float64Array.from(
  { length: 16 },
  (_, i) => 2 ** (FRACTION_BITS - SMALLEST_EXPONENT - i),
);
const scratch: DataView = new DataView(new ArrayBuffer(8));

/** The value of eight bits. */
export function fp8ToNumber(bits: number): number {
  const sign = bits & 0x80 ? -1 : 1;
  const exponent = (bits >>> FRACTION_BITS) & 15;
  const fraction = bits & 7;
  if (exponent === 15 && fraction === 7) return Number.NaN;
  if (exponent === 0) return sign * (fraction / 8) * 2 ** SMALLEST_EXPONENT;
  return sign * (1 + fraction / 8) * 2 ** (exponent - EXPONENT_BIAS);
}

/** The values of all 256 codes, in order. */
export function fp8Levels(): Float32Array {
  return Float32Array.from({ length: NUM_VALUES }, (_, bits) => fp8ToNumber(bits));
}

/** Rounds to the nearest, ties to even; overflow saturates. */
export function numberToFp8(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0;
  const magnitude = Math.min(Math.abs(value), FP8_MAX);
  if (Number.isNaN(magnitude)) return 0x7f;
  scratch.setFloat64(0, magnitude);
  const exponent = Math.max(SMALLEST_EXPONENT, (scratch.getUint16(0) >>> 4) - 1023);
  const units = roundTiesToEven(magnitude * (STEPS_PER_ONE[exponent - SMALLEST_EXPONENT] ?? 0));
  // Sixteen eighths carry over to the next exponent. Subnormal values have no implicit bit.
  return sign | (exponent === SMALLEST_EXPONENT ? units : ((exponent + EXPONENT_BIAS) << FRACTION_BITS) + units - 8);
}

/** Rounds an array. */
export function narrowToFp8(values: Float32Array): Uint8Array {
  const bits = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i++) bits[i] = numberToFp8(values[i] ?? 0);
  return bits;
}

let numbersByBits: Float32Array | undefined;

/** Widens an array. */
export function widenFp8(bits: Uint8Array): Float32Array {
  numbersByBits ??= fp8Levels();
  const table = numbersByBits;
  const values = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) values[i] = table[bits[i] ?? 0] ?? 0;
  return values;
}

function roundTiesToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
