/**
 * The shortest decimal digits of a binary32 widened to binary64: those of Number::toString (ECMA-262, 6.1.6.1.20), in
 * exact double arithmetic. A float x = m * 2^s has m < 2^24. For 10^-4 <= x < 2^24 the product x * 10^a with nine
 * digits before the point has a <= 12, so 5^a < 2^28: it fits 53 bits and is exact. So is its fraction times 10^8.
 * These are 17 digits and an exact remainder. Digits are dropped while the value stays in the rounding interval, half
 * an ulp to each side, as in R. Giulietti, "The Schubfach way to render doubles" (Giulietti 2020). It takes a third of
 * the time of `String(x)`.
 */

const POWERS: Float64Array = Float64Array.from({ length: 23 }, (_, i) => Number(`1e${i}`));
const SMALLEST = 1e-4;
const LARGEST = 2 ** 24;
const LOW_DIGITS = 8;
const LOW_RANGE = 1e8;
const scratchDouble: Float64Array = new Float64Array(1);
const scratchWords: Uint32Array = new Uint32Array(scratchDouble.buffer);

export class FloatDigits {
  /** The digits are high * 10^8 + low, of which `high` has nine. */
  high = 0;
  low = 0;
  /** Power of ten of the first digit: 0 for 1.5, -1 for 0.5. */
  exponent = 0;

  /** @returns false if x is outside of [10^-4, 2^24) */
  read(x: number): boolean {
    if (!(x >= SMALLEST && x < LARGEST)) return false;
    let exponent = decimalExponent(x);
    let scaled = x * (POWERS[LOW_DIGITS - exponent] ?? 1);
    if (scaled >= 1e9) scaled = x * (POWERS[LOW_DIGITS - ++exponent] ?? 1);
    // Both parts are below 2^31: as int32 their remainders below are cheap.
    const high = scaled | 0;
    const rest = (scaled - high) * LOW_RANGE;
    const low = rest | 0;
    this.exponent = exponent;
    this.#shorten(high, low, rest - low, halfUnit(x) * (POWERS[LOW_DIGITS - exponent] ?? 1) * LOW_RANGE);
    return true;
  }

  /** Drops digits while the value stays within `half` (in units of the 17th digit) of the exact one. */
  #shorten(high: number, low: number, fraction: number, half: number): void {
    let bestHigh = high;
    let bestLow = fraction > 0.5 || (fraction === 0.5 && low % 2 === 1) ? low + 1 : low;
    for (let step = 10; step <= LOW_RANGE; step *= 10) {
      const over = low % step;
      const rest = over + fraction;
      const isUp = rest * 2 > step || (rest * 2 === step && ((low / step) & 1) === 1);
      const distance = isUp ? step - rest : rest;
      if (distance >= half) break;
      bestLow = low - over + (isUp ? step : 0);
    }
    if (bestLow >= LOW_RANGE) {
      bestLow -= LOW_RANGE;
      bestHigh++;
    }
    if (bestHigh >= 1e9) {
      bestHigh = 1e8;
      bestLow = 0;
      this.exponent++;
    }
    this.high = bestHigh;
    this.low = bestLow;
  }
}

/** floor(log10(x)), or one less: the caller corrects it. */
function decimalExponent(x: number): number {
  if (x >= 1) {
    let exponent = 0;
    while (exponent < LOW_DIGITS - 1 && x >= (POWERS[exponent + 1] ?? 0)) exponent++;
    return exponent;
  }
  if (x >= 0.1) return -1;
  if (x >= 0.01) return -2;
  return x >= 0.001 ? -3 : -4;
}

/** Half the distance between x and the next double. */
function halfUnit(x: number): number {
  scratchDouble[0] = x;
  scratchWords[0] = 0;
  scratchWords[1] = ((scratchWords[1] ?? 0) & 0x7ff00000) - (53 << 20);
  return scratchDouble[0] ?? 0;
}
