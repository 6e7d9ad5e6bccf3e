/**
 * Reads the common JSON integer: up to nine digits in front of a comma or the end of the array (RFC 8259, section 6).
 * Other forms are left to `JsonNumber`, which also reports errors.
 */
import { CLOSE_ARRAY, COMMA } from "../json/reader.ts";

const MAX_DIGITS = 9;
const ZERO = 0x30;
const MINUS = 0x2d;

export class FastInteger {
  value = 0;
  end = 0;

  /** Reads the number at `start`. @returns false if it has another form or is invalid */
  read(bytes: Uint8Array, start: number, isSigned: boolean): boolean {
    const isNegative = isSigned && bytes[start] === MINUS;
    const first = isNegative ? start + 1 : start;
    let at = first;
    let value = 0;
    let digit = (bytes[at] ?? 0) - ZERO;
    while (digit >= 0 && digit <= 9 && at < first + MAX_DIGITS) {
      value = value * 10 + digit;
      digit = (bytes[++at] ?? 0) - ZERO;
    }
    const next = bytes[at];
    if (at === first || (next !== COMMA && next !== CLOSE_ARRAY)) return false;
    if (bytes[first] === ZERO && at > first + 1) return false;
    this.value = isNegative ? -value : value;
    this.end = at;
    return true;
  }
}
