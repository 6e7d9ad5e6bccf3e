/**
 * Lenient UTF-8 (RFC 3629) for JSON: decoding replaces errors by U+FFFD, encoding replaces lone surrogates.
 * TextDecoder and TextEncoder differ between Node and browsers in availability and speed.
 */

/** Code units handed to `String.fromCharCode` at once: well below every engine's limit of arguments. */
const CHUNK_UNITS = 8192;
const REPLACEMENT = 0xfffd;

/** Decodes; bytes that are not UTF-8 become U+FFFD. */
export function decodeUtf8(bytes: Uint8Array, start: number, end: number): string {
  const units = new Uint16Array(Math.min(CHUNK_UNITS, end - start + 1));
  let text = "";
  let used = 0;
  let at = start;
  while (at < end) {
    if (used + 2 > units.length) {
      text += String.fromCharCode.apply(null, units.subarray(0, used) as unknown as number[]);
      used = 0;
    }
    const first = bytes[at] ?? 0;
    if (first < 0x80) {
      units[used++] = first;
      at++;
      continue;
    }
    const size = sequenceSize(bytes, at, end);
    const point = size === 0 ? REPLACEMENT : codePoint(bytes, at, size);
    at += size === 0 ? 1 : size;
    if (point > 0xffff) {
      units[used++] = 0xd800 + ((point - 0x10000) >> 10);
      units[used++] = 0xdc00 + ((point - 0x10000) & 0x3ff);
    } else {
      units[used++] = point;
    }
  }
  return text + String.fromCharCode.apply(null, units.subarray(0, used) as unknown as number[]);
}

/** Length of the valid sequence at `at`, 0 when there is none. */
function sequenceSize(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at] ?? 0;
  const size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || at + size > end) return 0;
  for (let i = 1; i < size; i++) if (((bytes[at + i] ?? 0) & 0xc0) !== 0x80) return 0;
  return isAllowed(codePoint(bytes, at, size), size) ? size : 0;
}

/** False for a point that has a shorter form, that is half of a pair, or that is none. */
function isAllowed(point: number, size: number): boolean {
  if (size === 2) return true;
  if (size === 4) return point >= 0x10000 && point <= 0x10ffff;
  return point >= 0x800 && (point < 0xd800 || point > 0xdfff);
}

function codePoint(bytes: Uint8Array, at: number, size: number): number {
  const first = bytes[at] ?? 0;
  let point = size === 2 ? first & 0x1f : size === 3 ? first & 0x0f : first & 0x07;
  for (let i = 1; i < size; i++) point = (point << 6) | ((bytes[at + i] ?? 0) & 0x3f);
  return point;
}

/** Writes one code point at `at` and returns the position after it: the room (4 bytes) is the caller's business. */
export function writeCodePoint(out: Uint8Array, at: number, point: number): number {
  if (point < 0x80) {
    out[at] = point;
    return at + 1;
  }
  if (point < 0x800) {
    out[at] = 0xc0 | (point >> 6);
    out[at + 1] = 0x80 | (point & 0x3f);
    return at + 2;
  }
  if (point < 0x10000) {
    out[at] = 0xe0 | (point >> 12);
    out[at + 1] = 0x80 | ((point >> 6) & 0x3f);
    out[at + 2] = 0x80 | (point & 0x3f);
    return at + 3;
  }
  out[at] = 0xf0 | (point >> 18);
  out[at + 1] = 0x80 | ((point >> 12) & 0x3f);
  out[at + 2] = 0x80 | ((point >> 6) & 0x3f);
  out[at + 3] = 0x80 | (point & 0x3f);
  return at + 4;
}

/** Encodes text; a lone surrogate becomes U+FFFD. */
export function encodeUtf8(text: string): Uint8Array {
  const out = new Uint8Array(text.length * 3);
  let at = 0;
  for (let i = 0; i < text.length; i++) {
    const point = text.codePointAt(i) ?? 0;
    if (point > 0xffff) i++;
    at = writeCodePoint(out, at, point >= 0xd800 && point <= 0xdfff ? REPLACEMENT : point);
  }
  return out.subarray(0, at);
}
