/**
 * Packs, splits and checks BYTES tensors: elements back to back, each a 4-byte little-endian length and that many
 * bytes (Triton's binary data extension, docs/protocol/extension_binary_data.md). Faults are returned as data; callers
 * word the error.
 */
import { encodeUtf8 } from "./utf8.ts";

const LENGTH_BYTES = 4;

export type BytesFault =
  /** There is more data behind the last element expected. */
  | { readonly kind: "excess"; readonly count: number }
  /** The data ends after `count` elements. */
  | { readonly kind: "missing"; readonly count: number }
  /** Fewer bytes are left than a length has. */
  | { readonly kind: "cut length"; readonly left: number }
  /** Fewer bytes are left than the length says. */
  | { readonly kind: "cut element"; readonly length: number; readonly left: number };

/** Undefined when `data` holds exactly `expected` elements. */
export function checkBytesElements(data: Uint8Array, expected: number): BytesFault | undefined {
  const view = viewOf(data);
  let offset = 0;
  let count = 0;
  while (offset < data.length) {
    const left = data.length - offset;
    if (left < LENGTH_BYTES) return { kind: "cut length", left };
    if (count === expected) return { kind: "excess", count: count + 1 };
    const length = view.getUint32(offset, true);
    if (length > left - LENGTH_BYTES) return { kind: "cut element", length, left: left - LENGTH_BYTES };
    offset += LENGTH_BYTES + length;
    count += 1;
  }
  return count === expected ? undefined : { kind: "missing", count };
}

/** The elements of checked data, as views. */
export function splitBytesElements(data: Uint8Array): Uint8Array[] {
  const view = viewOf(data);
  const elements: Uint8Array[] = [];
  for (let offset = 0; offset < data.length; ) {
    const start = offset + LENGTH_BYTES;
    const end = start + view.getUint32(offset, true);
    elements.push(data.subarray(start, end));
    offset = end;
  }
  return elements;
}

/** Packs elements into the layout of a BYTES tensor; strings as UTF-8. */
export function packBytesElements(elements: readonly (Uint8Array | string)[]): Uint8Array {
  const parts = elements.map((element) => (typeof element === "string" ? encodeUtf8(element) : element));
  const size = parts.reduce((sum, part) => sum + LENGTH_BYTES + part.length, 0);
  const data = new Uint8Array(size);
  const view = viewOf(data);
  let offset = 0;
  for (const part of parts) {
    view.setUint32(offset, part.length, true);
    data.set(part, offset + LENGTH_BYTES);
    offset += LENGTH_BYTES + part.length;
  }
  return data;
}

function viewOf(data: Uint8Array): DataView {
  return new DataView(data.buffer, data.byteOffset, data.byteLength);
}
