/**
 * bfloat16: the upper 16 bits of a binary32 (IEEE 754-2019, 3.4), as in Intel's "BFLOAT16 - Hardware Numerics Definition"
 * (2018). Rounds to the nearest, ties to even. A NaN keeps its sign and upper payload and becomes quiet.
 */

const QUIET_BIT = 0x40;
const scratch: Float32Array = new Float32Array(1);
const scratchBits: Uint32Array = new Uint32Array(scratch.buffer);

export function bf16ToNumber(bits: number): number {
  scratchBits[0] = bits << 16;
  return scratch[0] ?? 0;
}

export function numberToBf16(value: number): number {
  scratch[0] = value;
  return roundBits(scratchBits[0] ?? 0);
}

/** `into`: as many numbers as `values`; left out: new memory. */
export function widenBf16(
  values: Uint16Array,
  into: Float32Array<ArrayBufferLike> = new Float32Array(values.length),
): Float32Array {
  const bits = new Uint32Array(into.buffer, into.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) bits[i] = (values[i] ?? 0) << 16;
  return into;
}

/** `into`: as many numbers as `values`; left out: new memory. */
export function narrowToBf16(
  values: Float32Array,
  into: Uint16Array<ArrayBufferLike> = new Uint16Array(values.length),
): Uint16Array {
  const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
  for (let i = 0; i < bits.length; i++) into[i] = roundBits(bits[i] ?? 0);
  return into;
}

function roundBits(bits: number): number {
  const isNan = (bits & 0x7fff_ffff) > 0x7f80_0000;
  return isNan ? (bits >>> 16) | QUIET_BIT : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}
