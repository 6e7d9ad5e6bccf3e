/**
 * Numbers to and from 16-bit floats: FP16 (IEEE 754 binary16) and BF16 (the upper half of binary32). Values are rounded to
 * binary32 first, then to the nearest, ties to even.
 */

const FP16_INFINITY = 0x7c00;
const QUIET = 0x0200;
/** Below 2^-14 FP16 has no leading one. */
const SMALLEST_NORMAL: number = 2 ** -14;
const SUBNORMAL_STEP: number = 2 ** -24;

export function toFloat16(values: ArrayLike<number>): Uint16Array {
  const [source, bits] = binary32Of(values);
  return Uint16Array.from(bits, (word, index) => halfOf(word, Math.abs(source[index] ?? 0)));
}

function halfOf(word: number, magnitude: number): number {
  const sign = (word >>> 16) & 0x8000;
  if (Number.isNaN(magnitude)) return sign | FP16_INFINITY | QUIET;
  if (magnitude < SMALLEST_NORMAL) return sign | roundHalfEven(magnitude / SUBNORMAL_STEP);
  // Exponents differ by 112 in their bias; a carry of the rounding goes on into the exponent.
  const rounded = ((word & 0x7fff_ffff) - 0x3800_0000 + 0x0fff + ((word >>> 13) & 1)) >>> 13;
  return sign | Math.min(rounded, FP16_INFINITY);
}

export function fromFloat16(patterns: Uint16Array): Float32Array {
  return Float32Array.from(patterns, (pattern) => {
    const sign = pattern & 0x8000 ? -1 : 1;
    const exponent = (pattern >>> 10) & 0x1f;
    const fraction = pattern & 0x03ff;
    if (exponent === 0) return sign * fraction * SUBNORMAL_STEP;
    if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
    return sign * 2 ** (exponent - 15) * (1 + fraction / 1024);
  });
}

export function toBfloat16(values: ArrayLike<number>): Uint16Array {
  const [source, bits] = binary32Of(values);
  return Uint16Array.from(bits, (word, index) => {
    if (Number.isNaN(source[index])) return (word >>> 16) | 0x40;
    return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  });
}

export function fromBfloat16(patterns: Uint16Array): Float32Array {
  return new Float32Array(Uint32Array.from(patterns, (pattern) => pattern << 16).buffer);
}

function binary32Of(values: ArrayLike<number>): [Float32Array, Uint32Array] {
  const source = Float32Array.from(values);
  return [source, new Uint32Array(source.buffer)];
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}
