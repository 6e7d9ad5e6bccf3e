/**
 * Interns names that each KServe V2 request repeats (models, tensors, datatypes). A hit makes no new string, and its
 * hash is computed already, which later map lookups need. Direct-mapped and bounded: hostile names only evict others.
 */
import { tryDecodeUtf8 } from "./utf8.ts";

const SLOTS = 1024;
/** Longer strings are prompts and ids, which do not repeat. */
const MAX_BYTES = 32;

export class NameCache {
  readonly #names: string[] = new Array(SLOTS).fill("");

  /** The text of bytes[start, end). Undefined when they are not UTF-8. */
  read(bytes: Uint8Array, start: number, end: number): string | undefined {
    const length = end - start;
    if (length === 0) return "";
    if (length > MAX_BYTES) return tryDecodeUtf8(bytes, start, end);
    const slot = hashOf(bytes, start, end) & (SLOTS - 1);
    const name = this.#names[slot] ?? "";
    if (name.length === length && equals(name, bytes, start)) return name;
    const text = tryDecodeUtf8(bytes, start, end);
    if (text !== undefined && text.length === length) this.#names[slot] = text;
    return text;
  }
}

function hashOf(bytes: Uint8Array, start: number, end: number): number {
  let hash = end - start;
  for (let at = start; at < end; at++) hash = (Math.imul(hash, 31) + (bytes[at] ?? 0)) | 0;
  return hash ^ (hash >>> 15);
}

/** Only ASCII is kept, so code units and bytes can be compared. */
function equals(name: string, bytes: Uint8Array, start: number): boolean {
  for (let k = 0; k < name.length; k++) if (name.charCodeAt(k) !== bytes[start + k]) return false;
  return true;
}
