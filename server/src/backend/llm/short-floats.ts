/** 16-bit floats to numbers and back: IEEE half precision and bfloat16. Rounds to the nearest, ties to even. */

const word = new DataView(new ArrayBuffer(4));

export function bfloatToNumber(bits: number): number {
  word.setUint32(0, bits * 65_536);
  return word.getFloat32(0);
}

export function numberToBfloat(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  word.setFloat32(0, value);
  const bits = word.getUint32(0);
  return Math.min(0xffff_ffff, bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

export function halfToNumber(bits: number): number {
  const sign = (bits & 0x8000) === 0 ? 1 : -1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

export function numberToHalf(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (size >= 65_520) return sign | 0x7c00;
  // Below 2^-14 all numbers are multiples of 2^-24; above, of 2^-10 of their power of two.
  const exponent = size < 2 ** -14 ? -14 : Math.floor(Math.log2(size));
  const steps = roundToEven(size / 2 ** (exponent - 10));
  return sign | (size < 2 ** -14 ? steps : ((exponent + 15) << 10) + steps - 1024);
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
