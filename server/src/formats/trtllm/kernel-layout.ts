/**
 * Detects integers that were already permuted for TensorRT-LLM's mixed GEMM kernels. Source: TensorRT-LLM,
 * `preprocess_weights_for_mixed_gemm`. Names and sizes equal the plain layout. The kernel layout adds half the range,
 * so the small numbers that dominate become large.
 */

/** Sample size in bytes, and the share of large numbers that identifies the kernel layout. */
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
