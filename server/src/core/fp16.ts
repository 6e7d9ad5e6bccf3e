/** FP16 (IEEE 754-2019 binary16) conversions, for which Node 20 has no typed array. It knows no tensor. */

const EXPONENT_BIAS = 15;
const FRACTION_BITS = 10;
/** The spacing of subnormal values. */
const SMALLEST: number = 2 ** -24;
/** By the exponent bits of a normal value: `**` takes most of the time of widening. */
const POWERS: Float64Array = Float64Array.from({ length: 31 }, (_, bits) => 2 ** (bits - EXPONENT_BIAS));
const scratch: DataView = new DataView(new ArrayBuffer(4));

/** The value of 16 bits. */
export function fp16ToNumber(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> FRACTION_BITS) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * SMALLEST;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * (POWERS[exponent] ?? 0);
}

/** Rounds to the nearest FP16 value, ties to even; overflow becomes infinity. */
export function numberToFp16(value: number): number {
  scratch.setFloat32(0, value);
  const bits = scratch.getUint32(0);
  const sign = (bits >>> 16) & 0x8000;
  const magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  // From 65520 on the nearest FP16 value is infinity.
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  // Subnormal FP16 values are multiples of 2^-24.
  if (magnitude < 0x38800000) return sign | roundTiesToEven(Math.abs(Math.fround(value)) * 2 ** 24);
  const rebased = magnitude - ((127 - EXPONENT_BIAS) << 23);
  const kept = rebased >>> 13;
  const rest = rebased & 0x1fff;
  const roundsUp = rest > 0x1000 || (rest === 0x1000 && (kept & 1) === 1);
  return sign | (kept + (roundsUp ? 1 : 0));
}

/** Rounds an array. */
export function narrowToFp16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const fp16 = new Uint16Array(values.length);
  for (let i = 0; i < bits.length; i++) {
    const word = bits[i] ?? 0;
    const magnitude = word & 0x7fffffff;
    // Normal values: add half a unit in the last place, less one for ties that are already even, then truncate.
    const isNormal = magnitude >= 0x38800000 && magnitude < 0x477ff000;
    const rebased = magnitude - ((127 - EXPONENT_BIAS) << 23);
    fp16[i] = isNormal
      ? ((word >>> 16) & 0x8000) | ((rebased + 0xfff + ((rebased >>> 13) & 1)) >>> 13)
      : numberToFp16(values[i] ?? 0);
  }
  return fp16;
}

let numbersByHalf: Float32Array | undefined;

/** Widens an array. */
export function widenFp16(fp16: Uint16Array): Float32Array {
  numbersByHalf ??= Float32Array.from({ length: 2 ** 16 }, (_, bits) => fp16ToNumber(bits));
  const table = numbersByHalf;
  const values = new Float32Array(fp16.length);
  for (let i = 0; i < fp16.length; i++) values[i] = table[fp16[i] ?? 0] ?? 0;
  return values;
}

function roundTiesToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
