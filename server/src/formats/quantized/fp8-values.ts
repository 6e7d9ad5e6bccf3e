/**
 * Value tables of the other 8-bit float formats: E5M2 and E8M0. Source: OCP 8-bit Floating Point and Microscaling
 * Formats specifications.
 */
import { fp16ToNumber } from "../../core/fp16.ts";

/** E5M2: the upper byte of an FP16 value. */
export function e5m2Values(): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => fp16ToNumber(byte << 8));
}

/** E8M0 scales: powers of two from 2^-127 to 2^127. */
export function e8m0Values(): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => (byte === 255 ? Number.NaN : 2 ** (byte - 127)));
}
