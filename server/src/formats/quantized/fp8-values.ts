/** The 256 numbers of the rarer 8-bit floats: those with more exponent than fraction, and powers of two as scales. */
import { fp16ToNumber } from "../../core/fp16.ts";

/** Five bits of exponent, two of fraction: a half that lost its lower byte. */
export function e5m2Values(): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => fp16ToNumber(byte << 8));
}

/** Eight bits of exponent: 2^-127 to 2^127. */
export function e8m0Values(): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => (byte === 255 ? Number.NaN : 2 ** (byte - 127)));
}
