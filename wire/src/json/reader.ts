/**
 * Reads JSON (RFC 8259) from bytes, token by token. NaN, Infinity and Inf are values too, as in RapidJSON with
 * kParseNanAndInfFlag, which Triton uses. Builds no value by itself and knows no protocol: the caller decides what
 * becomes a string, a number, a tensor, or is skipped.
 */

import { JsonNumber } from "../numbers/json-number.ts";
import { decodeUtf8, writeCodePoint } from "../utf8.ts";
import { JSON_REASON, JsonLimitError, JsonSyntaxError } from "./error.ts";
import { StringTable } from "./string-table.ts";

export interface JsonLimits {
  /** Open arrays and objects at one time. */
  readonly maxDepth: number;
  /** Members and elements of one text that become JavaScript values, in all containers together. */
  readonly maxItems: number;
  /** Bytes of one string value; left out: only the body bounds it. Strings of tensors stay bytes. */
  readonly maxStringBytes?: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
export const OPEN_ARRAY = 0x5b;
export const CLOSE_ARRAY = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;
export const COMMA = 0x2c;
const COLON = 0x3a;
const BYTE_ORDER_MARK: readonly number[] = [0xef, 0xbb, 0xbf];
/** Result of `peek()` at the end: no JSON token begins with it. */
const END = 0;

export class JsonReader {
  bytes: Uint8Array = new Uint8Array(0);
  pos = 0;
  readonly limits: JsonLimits;
  readonly number: JsonNumber = new JsonNumber();
  readonly #strings: StringTable;
  #depth = 0;
  #numItems = 0;
  #stringStart = 0;
  #hasEscape = false;

  constructor(limits: JsonLimits, strings: StringTable = new StringTable()) {
    this.limits = limits;
    this.#strings = strings;
  }

  /** Starts another text, behind the mark that Windows puts in front of UTF-8. */
  reset(bytes: Uint8Array): void {
    this.bytes = bytes;
    this.pos = 0;
    for (const byte of BYTE_ORDER_MARK) if (bytes[this.pos] === byte) this.pos++;
    this.#depth = 0;
    this.#numItems = 0;
  }

  /** Skips white space (RFC 8259, section 2) and returns the next byte without consuming it. */
  peek(): number {
    const bytes = this.bytes;
    let at = this.pos;
    let byte = bytes[at];
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) byte = bytes[++at];
    this.pos = at;
    return byte ?? END;
  }

  /** The first byte of the document's value. @throws JsonSyntaxError where there is none; a byte that ends something counts as none */
  peekRoot(): number {
    const byte = this.peek();
    if (byte === END || byte === CLOSE_OBJECT || byte === CLOSE_ARRAY || byte === COMMA || byte === COLON) {
      this.fail(JSON_REASON.empty);
    }
    return byte;
  }

  fail(reason: string, offset: number = this.pos): never {
    throw new JsonSyntaxError(reason, offset);
  }

  /** Consumes the opening bracket that `peek()` returned. @throws JsonLimitError when nested too deep */
  open(): void {
    if (++this.#depth > this.limits.maxDepth) {
      throw new JsonLimitError(`JSON nesting depth exceeds maximum allowed limit (${this.limits.maxDepth})`);
    }
    this.pos++;
  }

  close(): void {
    this.#depth--;
    this.pos++;
  }

  /**
   * Moves to the name of the next member. Call `open()` before the first, and this with `isFirst` false after each value.
   * @returns false at the end of the object
   */
  nextMember(isFirst: boolean): boolean {
    let byte = this.peek();
    if (byte === CLOSE_OBJECT) {
      this.close();
      return false;
    }
    if (!isFirst) {
      if (byte !== COMMA) this.fail(JSON_REASON.memberComma);
      this.pos++;
      byte = this.peek();
    }
    if (byte !== QUOTE) this.fail(JSON_REASON.memberName);
    return true;
  }

  /** Moves to the next element of an array. @returns false at its end */
  nextElement(isFirst: boolean): boolean {
    const byte = this.peek();
    if (byte === CLOSE_ARRAY) {
      this.close();
      return false;
    }
    if (isFirst) return true;
    if (byte !== COMMA) this.fail(JSON_REASON.elementComma);
    this.pos++;
    return true;
  }

  /** Reads a member's name and its colon. */
  memberName(): string {
    const name = this.string();
    this.colon();
    return name;
  }

  colon(): void {
    if (this.peek() !== COLON) this.fail(JSON_REASON.colon);
    this.pos++;
  }

  /** Reads the string at `pos`. @throws JsonLimitError when it is longer than `maxStringBytes` */
  string(): string {
    this.scanString();
    const start = this.#stringStart;
    const end = this.pos - 1;
    const { maxStringBytes = Number.POSITIVE_INFINITY } = this.limits;
    if (end - start > maxStringBytes) {
      throw new JsonLimitError(`JSON string exceeds maximum allowed size (${maxStringBytes} bytes)`);
    }
    if (!this.#hasEscape) return this.#strings.get(this.bytes, start, end);
    const bytes = new Uint8Array(end - start);
    return decodeUtf8(bytes, 0, this.#unescapeInto(bytes, 0));
  }

  /** Checks and skips the string at `pos`. @returns the most bytes that its content can have */
  scanString(): number {
    const bytes = this.bytes;
    let hasEscape = false;
    let at = this.pos + 1;
    this.#stringStart = at;
    for (;;) {
      const byte = bytes[at];
      if (byte === QUOTE) break;
      if (byte === undefined) this.fail(JSON_REASON.quote, at);
      if (byte < 0x20) this.fail(byte === 0 ? JSON_REASON.quote : JSON_REASON.escape, at);
      if (byte === BACKSLASH) {
        hasEscape = true;
        at += this.#escapeSize(at);
      } else {
        at++;
      }
    }
    this.#hasEscape = hasEscape;
    this.pos = at + 1;
    return at - this.#stringStart;
  }

  /** Copies the content of the string just scanned to `out` at `at`. @returns the index behind it */
  copyString(out: Uint8Array, at: number): number {
    if (this.#hasEscape) return this.#unescapeInto(out, at);
    const start = this.#stringStart;
    const length = this.pos - 1 - start;
    if (length > 64) out.set(this.bytes.subarray(start, start + length), at);
    else for (let i = 0; i < length; i++) out[at + i] = this.bytes[start + i] ?? 0;
    return at + length;
  }

  /** Length of the escape at `at`: 2, 6, or 12 for a surrogate pair (RFC 8259, section 7). */
  #escapeSize(at: number): number {
    const letter = this.bytes[at + 1];
    if (letter !== 0x75) {
      if (letter === undefined || SIMPLE_ESCAPE[letter] === 0) this.fail(JSON_REASON.escape, at);
      return 2;
    }
    const unit = this.#hex(at);
    // Half a pair that would come second is taken for a character, as RapidJSON takes it.
    if (unit < 0xd800 || unit > 0xdbff) return 6;
    if (this.bytes[at + 6] !== BACKSLASH || this.bytes[at + 7] !== 0x75) {
      this.fail(JSON_REASON.surrogate, at);
    }
    const low = this.#hex(at + 6);
    if (low < 0xdc00 || low > 0xdfff) this.fail(JSON_REASON.surrogate, at);
    return 12;
  }

  #hex(at: number): number {
    let unit = 0;
    for (let i = at + 2; i < at + 6; i++) {
      const digit = hexDigit(this.bytes[i] ?? 0);
      if (digit < 0) this.fail(JSON_REASON.hexDigit, at);
      unit = unit * 16 + digit;
    }
    return unit;
  }

  /** The escapes were checked when the string was scanned. The result is never longer than the source. */
  #unescapeInto(out: Uint8Array, to: number): number {
    const bytes = this.bytes;
    const end = this.pos - 1;
    let at = this.#stringStart;
    let used = to;
    while (at < end) {
      const byte = bytes[at] ?? 0;
      if (byte !== BACKSLASH) {
        out[used++] = byte;
        at++;
        continue;
      }
      const size = this.#escapeSize(at);
      if (size === 2) {
        out[used++] = SIMPLE_ESCAPE[bytes[at + 1] ?? 0] ?? 0;
      } else {
        const high = this.#hex(at);
        const point = size === 6 ? high : 0x10000 + ((high - 0xd800) << 10) + (this.#hex(at + 6) - 0xdc00);
        used = writeCodePoint(out, used, point);
      }
      at += size;
    }
    return used;
  }

  /** Reads the literal at `pos`. */
  literal(text: string): void {
    for (let i = 1; i < text.length; i++) {
      if (this.bytes[this.pos + i] !== text.charCodeAt(i)) this.fail(JSON_REASON.value, this.pos + i);
    }
    this.pos += text.length;
  }

  /** Reads the number at `pos` into `number`. */
  readNumber(): void {
    this.number.read(this.bytes, this.pos);
    this.pos = this.number.end;
  }

  /** Checks and skips a scalar. */
  skipScalar(byte: number): void {
    if (byte === QUOTE) this.scanString();
    else if (byte === 0x74) this.literal("true");
    else if (byte === 0x66) this.literal("false");
    else if (byte === 0x6e) this.literal("null");
    else this.readNumber();
  }

  /**
   * Counts a member or element towards `maxItems`. A limit for each container would not bound nested ones.
   * @throws JsonLimitError
   */
  countItem(): void {
    if (++this.#numItems > this.limits.maxItems) {
      throw new JsonLimitError(`JSON document exceeds maximum allowed number of items (${this.limits.maxItems})`);
    }
  }

  /** Nothing but white space may follow. A zero byte ends the text, as in C. */
  finish(): void {
    if (this.peek() !== END) this.fail(JSON_REASON.trailing);
  }
}

const SIMPLE_ESCAPE: Uint8Array = simpleEscapes();

function simpleEscapes(): Uint8Array {
  const table = new Uint8Array(256);
  for (const [letter, value] of ['""', "\\\\", "//", "b\b", "f\f", "n\n", "r\r", "t\t"]) {
    table[letter?.charCodeAt(0) ?? 0] = value?.charCodeAt(0) ?? 0;
  }
  return table;
}

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
