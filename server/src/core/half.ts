/** IEEE 754 half precision, which Node 20 has no array for. It knows no tensor. */

const EXPONENT_BIAS = 15;
const FRACTION_BITS = 10;
const scratch: DataView = new DataView(new ArrayBuffer(4));

/** The number that 16 bits stand for. */
export function halfToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> FRACTION_BITS) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - EXPONENT_BIAS);
}

/** The nearest half of a single-precision number, ties to even; what is too large becomes infinite. */
export function numberToHalf(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // From 65520 on the nearest half is infinite.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Below the smallest normal half all halves are multiples of 2^-24.
  if (magnitude < 0x38800000) return sign | roundTiesToEven(Math.abs(Math.fround(value)) * 2 ** 24);
  const rebased = magnitude - ((127 - EXPONENT_BIAS) << 23);
  const kept = rebased >>> 13;
  const rest = rebased & 0x1fff;
  const roundsUp = rest > 0x1000 || (rest === 0x1000 && (kept & 1) === 1);
  return sign | (kept + (roundsUp ? 1 : 0));
}

function roundTiesToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
