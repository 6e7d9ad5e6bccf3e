/** The eight-bit floats of weights, e4m3 without infinities. It knows no tensor. */

export const FP8_MAX = 448;
const EXPONENT_BIAS = 7;
const FRACTION_BITS = 3;
const NUM_VALUES = 256;
/** Exponents below this have no hidden bit. */
const SMALLEST_EXPONENT: number = 1 - EXPONENT_BIAS;

/** The number that eight bits stand for. */
export function fp8ToNumber(bits: number): number {
  const sign = bits & 0x80 ? -1 : 1;
  const exponent = (bits >>> FRACTION_BITS) & 15;
  const fraction = bits & 7;
  if (exponent === 15 && fraction === 7) return Number.NaN;
  if (exponent === 0) return sign * (fraction / 8) * 2 ** SMALLEST_EXPONENT;
  return sign * (1 + fraction / 8) * 2 ** (exponent - EXPONENT_BIAS);
}

/** The numbers of all bits, in order. */
export function fp8Levels(): Float32Array {
  return Float32Array.from({ length: NUM_VALUES }, (_, bits) => fp8ToNumber(bits));
}

/** The nearest, ties to even; what is too large becomes the largest. */
export function numberToFp8(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0;
  const magnitude = Math.min(Math.abs(value), FP8_MAX);
  if (Number.isNaN(magnitude)) return 0x7f;
  const exponent = Math.max(SMALLEST_EXPONENT, Math.floor(Math.log2(magnitude)));
  const step = 2 ** (exponent - FRACTION_BITS);
  const units = roundTiesToEven(magnitude / step);
  // Sixteen eighths are the next exponent's eight; below the smallest normal number the hidden bit is missing.
  if (units === 16) return sign | ((exponent + 1 + EXPONENT_BIAS) << FRACTION_BITS);
  if (units < 8) return sign | units;
  return sign | ((exponent + EXPONENT_BIAS) << FRACTION_BITS) | (units - 8);
}

function roundTiesToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
