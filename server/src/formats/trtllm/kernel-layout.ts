/**
 * Tells integers that were laid out for the kernels of one GPU from those in the order of a matrix. Names and sizes are the
 * same; but the former have half the range added, so that small numbers, which most weights are, become large ones.
 */

/** Bytes that are looked at, and the share of large numbers among them that says so. */
const MAX_BYTES: number = 1 << 16;
const MIN_BYTES = 256;
const LARGE_SHARE = 0.75;

export function hasKernelLayout(bytes: Uint8Array, bits: 4 | 8): boolean {
  const sample = bytes.subarray(0, MAX_BYTES);
  const perByte = 8 / bits;
  let numLarge = 0;
  for (const byte of sample) numLarge += bits === 8 ? largeBytes(byte) : largeNibbles(byte);
  return sample.length >= MIN_BYTES && numLarge > sample.length * perByte * LARGE_SHARE;
}

function largeBytes(byte: number): number {
  return Number(Math.abs((byte << 24) >> 24) > 64);
}

function largeNibbles(byte: number): number {
  return Number(Math.abs((byte << 28) >> 28) > 4) + Number(Math.abs((byte << 24) >> 28) > 4);
}
