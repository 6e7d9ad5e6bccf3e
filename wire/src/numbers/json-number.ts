/**
 * Reads one JSON number (RFC 8259, section 6) and converts it, without a string if that is exact. The fast path is that
 * of W. Clinger, "How to Read Floating Point Numbers Accurately" (1990). Up to 15 digits and a power of ten up to 10^22
 * are exact doubles, so one multiplication or division rounds correctly. All other numbers go through `Number(text)`.
 * Knows no tensors.
 */
import { JSON_REASON, JsonSyntaxError } from "../json/error.ts";
import { decodeUtf8 } from "../utf8.ts";
import { readNormalPrecision } from "./normal-precision.ts";

const MAX_EXACT_DIGITS = 15;
/** Digits that are accumulated; further ones only change the exponent. */
const MAX_DIGITS = 19;
/** Digits of the largest 64-bit integer. */
const MAX_UINT64_DIGITS = 20;
const MAX_EXACT_POWER = 22;
const POWERS: Float64Array = Float64Array.from({ length: MAX_EXACT_POWER + 1 }, (_, i) => Number(`1e${i}`));
const MIN_NORMAL_FLOAT = 2 ** -126;

export type NumberKind = "integer" | "double" | "special";

export class JsonNumber {
  kind: NumberKind = "integer";
  negative = false;
  /** End of the token. */
  end = 0;
  #bytes: Uint8Array = new Uint8Array(0);
  #start = 0;
  #digits = 0;
  #numDigits = 0;
  #exponent = 0;
  #special = 0;
  readonly #double = new Float64Array(1);
  readonly #words = new Uint32Array(this.#double.buffer);

  /** Reads the number at `start`. @throws JsonSyntaxError */
  read(bytes: Uint8Array, start: number): void {
    this.#bytes = bytes;
    this.#start = start;
    this.negative = bytes[start] === 0x2d;
    this.#digits = 0;
    this.#numDigits = 0;
    this.#exponent = 0;
    const first = this.negative ? start + 1 : start;
    const at = this.#readWhole(first);
    if (at === first) {
      this.#readSpecial(at);
      return;
    }
    const next = bytes[at];
    if (next === 0x2e || next === 0x65 || next === 0x45) {
      this.kind = "double";
      this.#readRest(at);
      return;
    }
    this.kind = "integer";
    this.end = at;
    this.#refuseOverflow();
  }

  /** True for an integer that a signed 64-bit variable holds. */
  isInt64(): boolean {
    if (this.kind !== "integer") return false;
    if (this.#numDigits < MAX_DIGITS) return true;
    if (this.#numDigits > MAX_DIGITS) return false;
    const value = this.toBigInt();
    return value >= -(2n ** 63n) && value < 2n ** 63n;
  }

  isUint64(): boolean {
    if (this.kind !== "integer") return false;
    if (this.negative) return this.#digits === 0;
    if (this.#numDigits < MAX_UINT64_DIGITS) return true;
    return this.#numDigits === MAX_UINT64_DIGITS && this.toBigInt() < 2n ** 64n;
  }

  /** True when `toInteger()` is exact. */
  get isSafe(): boolean {
    return this.#numDigits <= MAX_EXACT_DIGITS;
  }

  /** The integer as a number; exact only when `isSafe`. */
  toInteger(): number {
    return this.negative ? -this.#digits : this.#digits;
  }

  toBigInt(): bigint {
    return BigInt(this.#text());
  }

  toDouble(): number {
    if (this.kind === "special") return this.#special;
    if (this.#numDigits > MAX_EXACT_DIGITS) return this.#slow();
    const power = this.#exponent;
    if (power < -MAX_EXACT_POWER || power > MAX_EXACT_POWER) return this.#slow();
    const value = power < 0 ? this.#digits / (POWERS[-power] ?? 1) : this.#digits * (POWERS[power] ?? 1);
    return this.negative ? -value : value;
  }

  /** The double that RapidJSON reads, which beyond 15 digits or 10^22 need not be the nearest. */
  toNormalPrecision(): number {
    if (this.kind === "special") return this.#special;
    if (this.#numDigits <= MAX_EXACT_DIGITS && Math.abs(this.#exponent) <= MAX_EXACT_POWER) {
      return this.kind === "integer" && this.#digits === 0 ? 0 : this.toDouble();
    }
    return readNormalPrecision(this.#text()) ?? this.toDouble();
  }

  /**
   * A double that rounds to the correct float. Up to 19 digits give an error of a few ulps, which matters only near the
   * middle of two floats. There, and for subnormal floats, the conversion is exact (the Bellerophon test, Clinger
   * 1990).
   */
  toFloat(): number {
    const power = this.#exponent;
    if (this.kind === "integer" && this.#digits === 0) return 0;
    if (this.kind === "special" || power < -MAX_EXACT_POWER || power > MAX_EXACT_POWER) return this.toDouble();
    const value = power < 0 ? this.#digits / (POWERS[-power] ?? 1) : this.#digits * (POWERS[power] ?? 1);
    if (this.#numDigits > MAX_EXACT_DIGITS) {
      this.#double[0] = value;
      const distance = ((this.#words[0] ?? 0) & 0x1fffffff) - 0x10000000;
      if (value < MIN_NORMAL_FLOAT || (distance > -32 && distance < 32)) return this.toDouble();
    }
    return this.negative ? -value : value;
  }

  #readWhole(first: number): number {
    const bytes = this.#bytes;
    let at = first;
    let digit = (bytes[at] ?? 0) - 0x30;
    if (digit === 0) return at + 1;
    let digits = 0;
    while (digit >= 0 && digit <= 9) {
      if (at - first < MAX_DIGITS) digits = digits * 10 + digit;
      else this.#exponent++;
      at++;
      digit = (bytes[at] ?? 0) - 0x30;
    }
    this.#digits = digits;
    this.#numDigits = at - first;
    return at;
  }

  #readRest(at: number): void {
    let end = at;
    if (this.#bytes[end] === 0x2e) end = this.#readFraction(end + 1);
    const letter = this.#bytes[end];
    if (letter === 0x65 || letter === 0x45) end = this.#readExponent(end + 1);
    this.end = end;
    this.#refuseOverflow();
  }

  /** Only a number with an exponent or hundreds of digits can be too big. */
  #refuseOverflow(): void {
    const magnitude = this.#exponent + Math.min(this.#numDigits, MAX_DIGITS);
    if (magnitude <= 280 && this.#exponent <= 280) return;
    if (readNormalPrecision(this.#text()) === undefined) throw new JsonSyntaxError(JSON_REASON.tooBig, this.#start);
  }

  /** Leading zeros only change the exponent; digits behind MAX_DIGITS are ignored. */
  #readFraction(first: number): number {
    const bytes = this.#bytes;
    let digits = this.#digits;
    let at = first;
    let digit = (bytes[at] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) throw new JsonSyntaxError(JSON_REASON.fraction, at);
    if (digits === 0) while (bytes[at] === 0x30) at++;
    const from = at;
    const limit = at + MAX_DIGITS - this.#numDigits;
    digit = (bytes[at] ?? 0) - 0x30;
    while (digit >= 0 && digit <= 9 && at < limit) {
      digits = digits * 10 + digit;
      digit = (bytes[++at] ?? 0) - 0x30;
    }
    // Once digits of the whole part were dropped, none of the fraction is taken: `limit` is then behind `at`.
    this.#exponent -= at - first;
    this.#digits = digits;
    this.#numDigits += at - from;
    while (digit >= 0 && digit <= 9) digit = (bytes[++at] ?? 0) - 0x30;
    return at;
  }

  #readExponent(first: number): number {
    const bytes = this.#bytes;
    let at = first;
    const isNegative = bytes[at] === 0x2d;
    if (isNegative || bytes[at] === 0x2b) at++;
    let digit = (bytes[at] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) throw new JsonSyntaxError(JSON_REASON.exponent, at);
    let exponent = 0;
    while (digit >= 0 && digit <= 9) {
      if (exponent < 100_000) exponent = exponent * 10 + digit;
      at++;
      digit = (bytes[at] ?? 0) - 0x30;
    }
    this.#exponent += isNegative ? -exponent : exponent;
    return at;
  }

  /** NaN, Inf, Infinity: no JSON, but RapidJSON's kParseNanAndInfFlag, which goes on behind the letters that it has taken. */
  #readSpecial(first: number): void {
    this.kind = "special";
    let at = first + commonLength(this.#bytes, first, "NaN");
    if (at === first + 3) {
      this.#special = Number.NaN;
      this.end = at;
      return;
    }
    const start = at;
    at += commonLength(this.#bytes, start, "Inf");
    if (at < start + 3) throw new JsonSyntaxError(JSON_REASON.value, at);
    this.#special = this.negative ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    this.end = at;
    if (this.#bytes[at] !== 0x69) return;
    at += commonLength(this.#bytes, at, "inity");
    if (at < this.end + 5) throw new JsonSyntaxError(JSON_REASON.value, at);
    this.end = at;
  }

  #slow(): number {
    return Number(this.#text());
  }

  #text(): string {
    return decodeUtf8(this.#bytes, this.#start, this.end);
  }
}

/** Letters of `text` that stand at `at`. */
function commonLength(bytes: Uint8Array, at: number, text: string): number {
  let length = 0;
  while (length < text.length && bytes[at + length] === text.charCodeAt(length)) length++;
  return length;
}
