/**
 * Writes JSON (RFC 8259) in the style of RapidJSON's Writer, which Triton uses: no spaces, and doubles with at least
 * one fraction digit. NaN and Infinity are bare words (kWriteNanAndInfFlag). Bytes other than ASCII stay as they are.
 */
import { FloatKernelBackoff } from "../numbers/float-kernel-backoff.ts";
import { Grisu2 } from "../numbers/grisu2.ts";
import { writeCodePoint } from "../utf8.ts";

const FIRST_BYTES = 65_536;
/** A text begins in the current buffer only if this much of it is free. */
const MIN_ROOM = 4096;
const HEX = "0123456789ABCDEF";
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
/** Digits in front of the point, or minus the zeros behind it, from which on there is an exponent. */
const MAX_POINT = 21;
const MIN_POINT = -6;
/** Longest number: 17 digits, sign, point, exponent; 20 digits and sign of an integer. */
const MAX_NUMBER = 32;

export class JsonWriter {
  bytes: Uint8Array;
  pos = 0;
  #start = 0;
  readonly #grisu = new Grisu2();
  readonly #kernel = new FloatKernelBackoff();

  /** `room`: the first buffer. */
  constructor(room: Uint8Array = new Uint8Array(FIRST_BYTES)) {
    this.bytes = room;
  }

  /** Begins a text. The previous one must be finished; its bytes stay untouched. */
  begin(): void {
    if (this.bytes.length - this.pos < MIN_ROOM) {
      this.bytes = new Uint8Array(FIRST_BYTES);
      this.pos = 0;
    }
    this.#start = this.pos;
  }

  /** The text written since `begin()`. */
  finish(): Uint8Array {
    return this.bytes.subarray(this.#start, this.pos);
  }

  get size(): number {
    return this.pos - this.#start;
  }

  /** Makes room for `count` more bytes. */
  ensure(count: number): void {
    if (this.bytes.length - this.pos >= count) return;
    const used = this.pos - this.#start;
    const grown = new Uint8Array(Math.max(used * 2 + count, FIRST_BYTES));
    grown.set(this.bytes.subarray(this.#start, this.pos));
    this.bytes = grown;
    this.#start = 0;
    this.pos = used;
  }

  byte(value: number): void {
    this.ensure(1);
    this.bytes[this.pos++] = value;
  }

  /** ASCII text that needs no escapes: punctuation and member names of ours. */
  raw(text: string): void {
    const { length } = text;
    this.ensure(length);
    const { bytes } = this;
    const at = this.pos;
    for (let i = 0; i < length; i++) bytes[at + i] = text.charCodeAt(i);
    this.pos = at + length;
  }

  /** JSON text that is written already. */
  rawBytes(text: Uint8Array): void {
    this.ensure(text.length);
    this.bytes.set(text, this.pos);
    this.pos += text.length;
  }

  string(text: string): void {
    this.ensure(text.length * 6 + 2);
    this.bytes[this.pos++] = 0x22;
    for (let i = 0; i < text.length; i++) {
      const unit = text.charCodeAt(i);
      if (unit >= 0x20 && unit < 0x80 && unit !== 0x22 && unit !== 0x5c) {
        this.bytes[this.pos++] = unit;
      } else if (unit < 0x80) {
        this.#escape(unit);
      } else {
        const point = text.codePointAt(i) ?? 0;
        if (point > 0xffff) i++;
        this.pos = writeCodePoint(this.bytes, this.pos, point >= 0xd800 && point <= 0xdfff ? 0xfffd : point);
      }
    }
    this.bytes[this.pos++] = 0x22;
  }

  /** Bytes as a JSON string. Invalid UTF-8 is written unchanged. */
  stringBytes(source: Uint8Array, start: number, end: number): void {
    this.ensure((end - start) * 6 + 2);
    const { bytes } = this;
    bytes[this.pos++] = 0x22;
    for (let i = start; i < end; i++) {
      const byte = source[i] ?? 0;
      if (byte >= 0x20 && byte !== 0x22 && byte !== 0x5c) bytes[this.pos++] = byte;
      else this.#escape(byte);
    }
    bytes[this.pos++] = 0x22;
  }

  #escape(byte: number): void {
    const { bytes } = this;
    const short = SHORT_ESCAPES.get(byte);
    bytes[this.pos++] = 0x5c;
    if (short !== undefined) {
      bytes[this.pos++] = short;
      return;
    }
    bytes[this.pos++] = 0x75;
    bytes[this.pos++] = 0x30;
    bytes[this.pos++] = 0x30;
    bytes[this.pos++] = HEX.charCodeAt(byte >> 4);
    bytes[this.pos++] = HEX.charCodeAt(byte & 15);
  }

  /** A safe integer. */
  integer(value: number): void {
    this.ensure(MAX_NUMBER);
    let rest = value;
    if (value < 0) {
      this.bytes[this.pos++] = 0x2d;
      rest = -value;
    }
    this.pos = rest < 0x7fffffff ? this.#digits32(rest | 0) : this.#digits53(rest);
  }

  bigint(value: bigint): void {
    this.raw(value.toString());
  }

  /** A 64-bit integer in two halves. */
  integer64(low: number, high: number, isUnsigned: boolean): void {
    const value = (isUnsigned ? high >>> 0 : high | 0) * 0x100000000 + (low >>> 0);
    if (Number.isSafeInteger(value)) {
      this.integer(value);
      return;
    }
    const exact = (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
    this.bigint(isUnsigned ? exact : BigInt.asIntN(64, exact));
  }

  /** With the digits of RapidJSON. */
  double(value: number): void {
    this.ensure(MAX_NUMBER);
    const size = Math.abs(value);
    if (size < 0x7fffffff && Math.floor(size) === size) this.#whole(value);
    else if (size < Number.POSITIVE_INFINITY) this.#digits(value < 0, size);
    else this.raw(String(value));
  }

  /** Elements `from` to `to` of a little-endian tensor, each with a comma in front, except element 0. */
  floats(view: DataView, from: number, to: number): void {
    this.ensure((to - from) * (MAX_NUMBER + 1));
    const { bytes } = this;
    for (let i = from; i < to; i++) {
      if (i > 0) {
        i += this.#floatsByKernel(view, i, to);
        if (i === to) break;
        bytes[this.pos++] = 0x2c;
      }
      this.double(view.getFloat32(4 * i, true));
    }
  }

  /** With their commas. @returns the number of floats, possibly 0 */
  #floatsByKernel(view: DataView, from: number, to: number): number {
    const kernel = this.#kernel.next(to - from);
    if (kernel === undefined) return 0;
    const count = kernel.write(view, from, to, this.bytes, this.pos);
    this.pos = kernel.end;
    this.#kernel.used(count, to - from);
    return count;
  }

  #whole(value: number): void {
    if (value < 0 || Object.is(value, -0)) this.bytes[this.pos++] = 0x2d;
    this.pos = this.#digits32(Math.abs(value) | 0);
    this.bytes[this.pos++] = 0x2e;
    this.bytes[this.pos++] = 0x30;
  }

  /** As RapidJSON's Prettify: an exponent from 10^21 on and below 10^-6, and a point always but before an exponent. */
  #digits(isNegative: boolean, size: number): void {
    this.#grisu.read(size);
    const { digits, length, exponent } = this.#grisu;
    if (isNegative) this.bytes[this.pos++] = MINUS;
    const point = length + exponent;
    if (point > MAX_POINT || point <= MIN_POINT) this.#withExponent(digits, length, point - 1);
    else if (point > 0) this.#withPoint(digits, length, point);
    else this.#behindPoint(digits, length, point);
  }

  #withExponent(digits: Uint8Array, length: number, exponent: number): void {
    const { bytes } = this;
    bytes[this.pos++] = digits[0] ?? ZERO;
    if (length > 1) bytes[this.pos++] = POINT;
    for (let i = 1; i < length; i++) bytes[this.pos++] = digits[i] ?? ZERO;
    this.raw(`e${exponent}`);
  }

  #withPoint(digits: Uint8Array, length: number, point: number): void {
    const { bytes } = this;
    for (let i = 0; i < point; i++) bytes[this.pos++] = i < length ? (digits[i] ?? ZERO) : ZERO;
    bytes[this.pos++] = POINT;
    if (point >= length) bytes[this.pos++] = ZERO;
    for (let i = point; i < length; i++) bytes[this.pos++] = digits[i] ?? ZERO;
  }

  #behindPoint(digits: Uint8Array, length: number, point: number): void {
    const { bytes } = this;
    bytes[this.pos++] = ZERO;
    bytes[this.pos++] = POINT;
    for (let i = point; i < 0; i++) bytes[this.pos++] = ZERO;
    for (let i = 0; i < length; i++) bytes[this.pos++] = digits[i] ?? ZERO;
  }

  #digits32(value: number): number {
    let length = 1;
    for (let limit = 10; limit <= value && length < 10; limit *= 10) length++;
    writeDigits(this.bytes, this.pos, value, length);
    return this.pos + length;
  }

  #digits53(value: number): number {
    const high = Math.floor(value / 1e9);
    const at = high < 0x7fffffff ? this.#digits32(high) : this.pos;
    writeDigits(this.bytes, at, value - high * 1e9, 9);
    return at + 9;
  }
}

/** `value` below 2^31 with exactly `length` digits. */
function writeDigits(bytes: Uint8Array, at: number, value: number, length: number): void {
  let rest = value | 0;
  for (let i = at + length - 1; i >= at; i--) {
    const next = (rest / 10) | 0;
    bytes[i] = 0x30 + rest - next * 10;
    rest = next;
  }
}

const SHORT_ESCAPES: ReadonlyMap<number, number> = new Map([
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0x08, 0x62],
  [0x0c, 0x66],
  [0x0a, 0x6e],
  [0x0d, 0x72],
  [0x09, 0x74],
]);
