/**
 * The digits of a double by Grisu2: F. Loitsch, "Printing Floating-Point Numbers Quickly and Accurately with Integers" (PLDI 2010),
 * figure 7, with the final rounding as RapidJSON 1.1 has it (internal/dtoa.h). It always reads back as the same double, but is not
 * always the shortest or nearest text. Triton prints its numbers so. 64-bit integers are pairs of 32-bit halves here, because
 * BigInt costs ten times as much.
 */

const TWO_32 = 2 ** 32;
const MIN_POWER = -348;
const POWER_STEP = 8;
const NUM_POWERS = 87;
const POWERS_OF_TEN: readonly number[] = Array.from({ length: 10 }, (_, i) => 10 ** i);
const LOG10_2 = 0.30102999566398114;

/** 10^(8 i - 348), rounded to 64 significant bits: the two halves, and the exponent of the last bit. */
interface CachedPowers {
  readonly high: Float64Array;
  readonly low: Float64Array;
  readonly exponent: Int32Array;
}

let powers: CachedPowers | undefined;

export class Grisu2 {
  /** ASCII digits, without leading zeros. */
  readonly digits: Uint8Array = new Uint8Array(20);
  length = 0;
  /** The value is the digits, read as an integer, times 10^exponent. */
  exponent = 0;
  readonly #double = new Float64Array(1);
  readonly #words = new Uint32Array(this.#double.buffer);
  /** Result of `#multiply()`. */
  #high = 0;
  #low = 0;
  /** The distance of the upper boundary from the value, and of both boundaries. */
  #gapHigh = 0;
  #gapLow = 0;
  #deltaHigh = 0;
  #deltaLow = 0;
  /** Exponent of the last bit of the scaled numbers, from -60 to -32. */
  #scale = 0;

  /** `value` must be positive and finite. */
  read(value: number): void {
    this.#double[0] = value;
    const wordHigh = this.#words[1] ?? 0;
    const wordLow = this.#words[0] ?? 0;
    const biased = wordHigh >>> 20;
    const fraction = wordHigh & 0xfffff;
    const isNormal = biased !== 0;
    const high = isNormal ? fraction + 0x100000 : fraction;
    this.#scaleAll(high, wordLow, isNormal ? biased - 1075 : -1074, isNormal && fraction === 0 && wordLow === 0);
  }

  /** The significand is `high`:`low`, and its last bit has the weight 2^e. */
  #scaleAll(high: number, low: number, e: number, isPowerOfTwo: boolean): void {
    // All three numbers get the exponent of the upper boundary, 2 f + 1, whose first bit moves to bit 63.
    const shift = (high === 0 ? 32 + Math.clz32(low) : Math.clz32(high)) - 1;
    const last = e - 1 - shift;
    const power = this.#powerFor(last);
    const { high: powerHigh, low: powerLow, exponent } = cachedPowers();
    const cHigh = powerHigh[power] ?? 0;
    const cLow = powerLow[power] ?? 0;
    this.#scale = last + (exponent[power] ?? 0) + 64;
    // 2 f, shifted: the value itself.
    const [vHigh, vLow] = shiftLeft(high, low, shift + 1);
    // Half a unit of the last place, shifted; a quarter below a power of two.
    const [halfHigh, halfLow] = shiftLeft(0, 1, shift);
    const [belowHigh, belowLow] = isPowerOfTwo ? shiftLeft(0, 1, shift - 1) : [halfHigh, halfLow];
    this.#multiply(vHigh, vLow, cHigh, cLow);
    const wHigh = this.#high;
    const wLow = this.#low;
    const plusLow = vLow + halfLow;
    this.#multiply(vHigh + halfHigh + (plusLow >= TWO_32 ? 1 : 0), plusLow % TWO_32, cHigh, cLow);
    let upHigh = this.#high;
    let upLow = this.#low - 1;
    if (upLow < 0) {
      upLow += TWO_32;
      upHigh--;
    }
    const minusLow = vLow - belowLow;
    this.#multiply(
      vHigh - belowHigh - (minusLow < 0 ? 1 : 0),
      minusLow < 0 ? minusLow + TWO_32 : minusLow,
      cHigh,
      cLow,
    );
    const downLow = this.#low + 1;
    this.#deltaLow = upLow - downLow;
    this.#deltaHigh = upHigh - this.#high;
    if (this.#deltaLow < 0) {
      this.#deltaLow += TWO_32;
      this.#deltaHigh--;
    }
    this.#gapLow = upLow - wLow;
    this.#gapHigh = upHigh - wHigh;
    if (this.#gapLow < 0) {
      this.#gapLow += TWO_32;
      this.#gapHigh--;
    }
    this.#generate(upHigh, upLow);
  }

  #powerFor(e: number): number {
    const index = Math.ceil((-61 - e) * LOG10_2 + 347);
    const power = (index >> 3) + 1;
    this.exponent = -(MIN_POWER + power * POWER_STEP);
    return power;
  }

  /** The upper half of the product of two 64-bit numbers, rounded. */
  #multiply(aHigh: number, aLow: number, bHigh: number, bLow: number): void {
    const lowLow = Math.imul(aLow, bLow) >>> 0;
    const lowHigh = upperHalf(aLow, bLow, lowLow);
    const crossLow = Math.imul(aHigh, bLow) >>> 0;
    const crossHigh = upperHalf(aHigh, bLow, crossLow);
    const otherLow = Math.imul(aLow, bHigh) >>> 0;
    const otherHigh = upperHalf(aLow, bHigh, otherLow);
    const topLow = Math.imul(aHigh, bHigh) >>> 0;
    const topHigh = upperHalf(aHigh, bHigh, topLow);
    const middle = lowHigh + crossLow + otherLow + 0x80000000;
    const sum = topLow + crossHigh + otherHigh + Math.floor(middle / TWO_32);
    this.#low = sum % TWO_32;
    this.#high = topHigh + Math.floor(sum / TWO_32);
  }

  /** Digits of the upper boundary, until what is left lies within the interval. */
  #generate(upHigh: number, upLow: number): void {
    const unit = 2 ** (-this.#scale - 32);
    const whole = Math.floor(upHigh / unit);
    this.length = 0;
    if (!this.#generateWhole(whole, upHigh - whole * unit, upLow, unit))
      this.#generateFraction(upHigh % unit, upLow, unit);
  }

  /** `unit`: 2^32 of it are one. @returns false when the digits of the fraction are needed */
  #generateWhole(whole: number, high: number, low: number, unit: number): boolean {
    let rest = whole;
    for (let kappa = countDigits(whole) - 1; kappa >= 0; kappa--) {
      const ten = POWERS_OF_TEN[kappa] ?? 1;
      const digit = Math.floor(rest / ten);
      rest -= digit * ten;
      this.#push(digit);
      const restHigh = rest * unit + high;
      if (isAtMost(restHigh, low, this.#deltaHigh, this.#deltaLow)) {
        this.exponent += kappa;
        this.#round(restHigh, low, ten * unit, 1);
        return true;
      }
    }
    return false;
  }

  #generateFraction(firstHigh: number, firstLow: number, unit: number): void {
    let high = firstHigh;
    let low = firstLow;
    for (let index = 1; ; index++) {
      const nextLow = low * 10;
      const nextHigh = high * 10 + Math.floor(nextLow / TWO_32);
      const digit = Math.floor(nextHigh / unit);
      this.#push(digit);
      high = nextHigh - digit * unit;
      low = nextLow % TWO_32;
      const deltaLow = this.#deltaLow * 10;
      this.#deltaHigh = this.#deltaHigh * 10 + Math.floor(deltaLow / TWO_32);
      this.#deltaLow = deltaLow % TWO_32;
      if (isBelow(high, low, this.#deltaHigh, this.#deltaLow)) {
        this.exponent -= index;
        // RapidJSON has no larger powers at hand, and does not round then.
        if (index < 9) this.#round(high, low, unit, POWERS_OF_TEN[index] ?? 0);
        return;
      }
    }
  }

  /** Zeros in front are no digits. */
  #push(digit: number): void {
    if (digit > 0 || this.length > 0) this.digits[this.length++] = 0x30 + digit;
  }

  /** Lowers the last digit while that brings the number nearer to the value. `ten` is the weight of the digit, in units of 2^32. */
  #round(restHigh: number, restLow: number, ten: number, factor: number): void {
    if (factor === 1 && !isBelow(restHigh, restLow, this.#gapHigh, this.#gapLow)) return;
    const delta = toBig(this.#deltaHigh, this.#deltaLow);
    const gap = BigInt.asUintN(64, toBig(this.#gapHigh, this.#gapLow) * BigInt(factor));
    let rest = toBig(restHigh, restLow);
    const step = BigInt(ten) << 32n;
    const last = this.length - 1;
    while (rest < gap && delta - rest >= step && (rest + step < gap || gap - rest > rest + step - gap)) {
      this.digits[last] = (this.digits[last] ?? 0) - 1;
      rest += step;
    }
  }
}

/** The upper 32 bits of a product of which the lower are known: the double product is off by less than half of 2^32. */
function upperHalf(a: number, b: number, low: number): number {
  return Math.round((a * b - low) / TWO_32);
}

/** The count must be below 64. */
function shiftLeft(high: number, low: number, count: number): readonly [number, number] {
  if (count >= 32) return [(low << (count - 32)) >>> 0, 0];
  if (count === 0) return [high, low];
  return [((high << count) | (low >>> (32 - count))) >>> 0, (low << count) >>> 0];
}

function isAtMost(aHigh: number, aLow: number, bHigh: number, bLow: number): boolean {
  return aHigh < bHigh || (aHigh === bHigh && aLow <= bLow);
}

function isBelow(aHigh: number, aLow: number, bHigh: number, bLow: number): boolean {
  return aHigh < bHigh || (aHigh === bHigh && aLow < bLow);
}

function toBig(high: number, low: number): bigint {
  return (BigInt(high) << 32n) + BigInt(low);
}

function countDigits(value: number): number {
  let count = 1;
  while (count < 9 && value >= (POWERS_OF_TEN[count] ?? 0)) count++;
  return count;
}

function cachedPowers(): CachedPowers {
  powers ??= makePowers();
  return powers;
}

function makePowers(): CachedPowers {
  const high = new Float64Array(NUM_POWERS);
  const low = new Float64Array(NUM_POWERS);
  const exponent = new Int32Array(NUM_POWERS);
  for (let i = 0; i < NUM_POWERS; i++) {
    const [significand, e] = normalizedPower(MIN_POWER + i * POWER_STEP);
    high[i] = Number(significand >> 32n);
    low[i] = Number(significand & 0xffffffffn);
    exponent[i] = e;
  }
  return { high, low, exponent };
}

/** 10^n as a 64-bit significand, rounded to nearest, and a power of two. */
function normalizedPower(n: number): readonly [bigint, number] {
  const guard = 1400n;
  const value = n < 0 ? (1n << guard) / 10n ** BigInt(-n) : (10n ** BigInt(n)) << guard;
  const bits = value.toString(2).length;
  const drop = BigInt(bits - 64);
  const rounded = (value >> drop) + ((value >> (drop - 1n)) & 1n);
  return [rounded, Number(drop - guard)];
}
