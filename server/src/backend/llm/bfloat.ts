/** bfloat16, the upper half of a single-precision number. Rounds to the nearest, ties to even. */

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
