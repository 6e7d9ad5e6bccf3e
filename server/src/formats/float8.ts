/** The 256 numbers of each kind of 8-bit float, and the powers of two of scales that are exponents alone. */

/** Four bits of exponent, three of fraction, no infinities: NaN is where all seven are set. */
export function e4m3Values(): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => {
    if ((byte & 0x7f) === 0x7f) return Number.NaN;
    return decode(byte, 4, 3, 7);
  });
}

/** Five bits of exponent, two of fraction, as a half that lost its lower byte. */
export function e5m2Values(): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => {
    if ((byte & 0x7c) !== 0x7c) return decode(byte, 5, 2, 15);
    if ((byte & 3) !== 0) return Number.NaN;
    return byte >= 128 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  });
}

/** Eight bits of exponent: 2^-127 to 2^127. */
export function e8m0Values(): Float32Array {
  return Float32Array.from({ length: 256 }, (_, byte) => (byte === 255 ? Number.NaN : 2 ** (byte - 127)));
}

function decode(byte: number, exponentBits: number, fractionBits: number, bias: number): number {
  const sign = byte >= 128 ? -1 : 1;
  const exponent = (byte >>> fractionBits) & (2 ** exponentBits - 1);
  const fraction = (byte & (2 ** fractionBits - 1)) / 2 ** fractionBits;
  return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
}
