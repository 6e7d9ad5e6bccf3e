/**
 * Strict UTF-8 (RFC 3629, section 3), as protobuf strings demand: overlong forms, surrogates and truncated sequences
 * are errors. Also encodes into a given buffer.
 */

const CHUNK = 4096;

/** The text of bytes[start, end). Undefined when they are not UTF-8 (overlong, surrogate, truncated). */
export function tryDecodeUtf8(bytes: Uint8Array, start: number, end: number): string | undefined {
  let text = "";
  let codes: number[] = [];
  for (let at = start; at < end; ) {
    const lead = bytes[at] ?? 0;
    if (lead < 0x80) {
      codes.push(lead);
      at += 1;
    } else {
      const length = sequenceLength(lead);
      const point = length === 0 || at + length > end ? -1 : codePoint(bytes, at, length);
      if (point < 0) return undefined;
      pushPoint(codes, point);
      at += length;
    }
    if (codes.length >= CHUNK) {
      text += String.fromCharCode(...codes);
      codes = [];
    }
  }
  return text + String.fromCharCode(...codes);
}

function sequenceLength(lead: number): number {
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  return lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
}

/** -1 when a continuation byte is missing or the value has a shorter form or is a surrogate. */
function codePoint(bytes: Uint8Array, at: number, length: number): number {
  let point = (bytes[at] ?? 0) & (0x7f >> length);
  for (let k = 1; k < length; k++) {
    const next = bytes[at + k] ?? 0;
    if ((next & 0xc0) !== 0x80) return -1;
    point = (point << 6) | (next & 0x3f);
  }
  if (length === 3 && (point < 0x800 || (point >= 0xd800 && point < 0xe000))) return -1;
  if (length === 4 && (point < 0x10000 || point > 0x10ffff)) return -1;
  return point;
}

function pushPoint(codes: number[], point: number): void {
  if (point < 0x10000) codes.push(point);
  else codes.push(0xd800 + ((point - 0x10000) >> 10), 0xdc00 + (point & 0x3ff));
}

/** Bytes that `writeUtf8` will write. */
export function utf8Length(text: string): number {
  let length = 0;
  for (let k = 0; k < text.length; k++) {
    const unit = text.charCodeAt(k);
    if (unit < 0x80) length += 1;
    else if (unit < 0x800) length += 2;
    else if (isPair(text, k, unit)) {
      length += 4;
      k += 1;
    } else length += 3;
  }
  return length;
}

/** Writes `text` at `at` and gives the offset behind it. A lone surrogate becomes U+FFFD. */
export function writeUtf8(text: string, target: Uint8Array, at: number): number {
  let to = at;
  for (let k = 0; k < text.length; k++) {
    const unit = text.charCodeAt(k);
    if (unit < 0x80) target[to++] = unit;
    else if (unit < 0x800) {
      target[to++] = 0xc0 | (unit >> 6);
      target[to++] = 0x80 | (unit & 0x3f);
    } else if (isPair(text, k, unit)) {
      k += 1;
      to = writePair(target, to, 0x10000 + ((unit - 0xd800) << 10) + (text.charCodeAt(k) - 0xdc00));
    } else {
      const safe = unit >= 0xd800 && unit < 0xe000 ? 0xfffd : unit;
      target[to++] = 0xe0 | (safe >> 12);
      target[to++] = 0x80 | ((safe >> 6) & 0x3f);
      target[to++] = 0x80 | (safe & 0x3f);
    }
  }
  return to;
}

function writePair(target: Uint8Array, at: number, point: number): number {
  target[at] = 0xf0 | (point >> 18);
  target[at + 1] = 0x80 | ((point >> 12) & 0x3f);
  target[at + 2] = 0x80 | ((point >> 6) & 0x3f);
  target[at + 3] = 0x80 | (point & 0x3f);
  return at + 4;
}

function isPair(text: string, at: number, unit: number): boolean {
  if (unit < 0xd800 || unit >= 0xdc00) return false;
  const low = text.charCodeAt(at + 1);
  return low >= 0xdc00 && low < 0xe000;
}
