/**
 * Interns short repeated strings of KServe V2 bodies (member names, tensor names, datatypes) instead of decoding them
 * again. A direct-mapped cache: a collision replaces the entry.
 */
import { decodeUtf8 } from "../utf8.ts";

/** Longer strings are rarely repeated. */
const MAX_BYTES = 32;
/** For a reader of many texts. The table never grows, whatever clients send. */
const SLOTS = 1024;
/** For a reader of one text, where filling the table would cost more than it saves. */
export const FEW_SLOTS = 64;

export class StringTable {
  readonly #slots: (string | undefined)[];
  readonly #mask: number;

  /** `numSlots`: a power of two. */
  constructor(numSlots: number = SLOTS) {
    this.#slots = Array.from({ length: numSlots }, () => undefined);
    this.#mask = numSlots - 1;
  }

  get(bytes: Uint8Array, start: number, end: number): string {
    const length = end - start;
    if (length > MAX_BYTES) return decodeUtf8(bytes, start, end);
    let hash = length;
    for (let i = start; i < end; i++) hash = (Math.imul(hash, 31) + (bytes[i] ?? 0)) | 0;
    const slot = (hash ^ (hash >>> 10)) & this.#mask;
    const known = this.#slots[slot];
    if (known !== undefined && isSame(known, bytes, start, length)) return known;
    const text = decodeUtf8(bytes, start, end);
    this.#slots[slot] = text;
    return text;
  }
}

/** Only ASCII can match: a text with other characters is shorter than its UTF-8. */
function isSame(text: string, bytes: Uint8Array, start: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let i = 0; i < length; i++) {
    const byte = bytes[start + i] ?? 0;
    if (byte > 0x7f || text.charCodeAt(i) !== byte) return false;
  }
  return true;
}
