/**
 * Reads the common JSON float: sign, digits, point, digits, up to 18 of them (RFC 8259, section 6), rounded to
 * binary32. The fast path of W. Clinger, "How to Read Floating Point Numbers Accurately" (Clinger 1990): digits and
 * power of ten are exact doubles, so one division rounds correctly up to 15 digits. Up to 18 digits the quotient is a
 * few ulps off, which is accepted unless it is near the middle of two floats. Other forms are left to `JsonNumber`,
 * which also reports errors. Two 32-bit integers collect the digits: twice as fast as one double.
 */

const MAX_DIGITS = 18;
const HALF_DIGITS = 9;
const MAX_EXACT_DIGITS = 15;
const MAX_EXACT_POWER = 22;
const POWERS: Float64Array = Float64Array.from({ length: MAX_EXACT_POWER + 1 }, (_, i) => Number(`1e${i}`));
const POINT = 0x2e;
const ZERO = 0x30;
const MINUS = 0x2d;
/** Lower-case bit of a letter. */
const LOWER = 0x20;
const LETTER_E = 0x65;

export class FastFloat {
  /** A double that rounds to the correct float. */
  value = 0;
  end = 0;
  #high = 0;
  #low = 0;
  #numDigits = 0;
  readonly #double = new Float64Array(1);
  readonly #words = new Uint32Array(this.#double.buffer);

  /** Reads the number at `start`. @returns false if it has another form or is invalid */
  read(bytes: Uint8Array, start: number): boolean {
    const first = bytes[start] === MINUS ? start + 1 : start;
    this.#high = 0;
    this.#low = 0;
    this.#numDigits = 0;
    const pointAt = bytes[first] === ZERO ? first + 1 : this.#digits(bytes, first);
    if (bytes[pointAt] !== POINT || pointAt === first) return false;
    let at = pointAt + 1;
    if (this.#numDigits === 0) while (bytes[at] === ZERO) at++;
    const end = this.#digits(bytes, at);
    const power = end - pointAt - 1;
    const isCommon = this.#numDigits > 0 && this.#numDigits <= MAX_DIGITS && power > 0 && power <= MAX_EXACT_POWER;
    if (!isCommon || ((bytes[end] ?? 0) | LOWER) === LETTER_E) return false;
    const value = this.#wholeNumber() / (POWERS[power] ?? 1);
    if (this.#numDigits > MAX_EXACT_DIGITS && this.#isNearMiddle(value)) return false;
    this.value = first === start ? value : -value;
    this.end = end;
    return true;
  }

  /** Appends the digits at `from`. @returns the index behind them */
  #digits(bytes: Uint8Array, from: number): number {
    let at = from;
    let count = this.#numDigits;
    let high = this.#high;
    let digit = (bytes[at] ?? 0) - ZERO;
    while (digit >= 0 && digit <= 9 && count < HALF_DIGITS) {
      high = (high * 10 + digit) | 0;
      count++;
      digit = (bytes[++at] ?? 0) - ZERO;
    }
    this.#high = high;
    let low = this.#low;
    while (digit >= 0 && digit <= 9) {
      // With more than MAX_DIGITS it overflows, and is not used.
      low = (low * 10 + digit) | 0;
      count++;
      digit = (bytes[++at] ?? 0) - ZERO;
    }
    this.#low = low;
    this.#numDigits = count;
    return at;
  }

  #wholeNumber(): number {
    const lowDigits = this.#numDigits - HALF_DIGITS;
    return lowDigits <= 0 ? this.#high : this.#high * (POWERS[lowDigits] ?? 1) + this.#low;
  }

  /** Whether a few ulps of error in `value` could change the float: near the middle of two. */
  #isNearMiddle(value: number): boolean {
    this.#double[0] = value;
    const distance = ((this.#words[0] ?? 0) & 0x1fffffff) - 0x10000000;
    return distance > -32 && distance < 32;
  }
}
