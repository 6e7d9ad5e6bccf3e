/**
 * String tensors: from the wire's length-prefixed elements to C strings of ONNX Runtime, and back. Calls no C function.
 */
import { type Address, addressOf } from "../ffi.ts";

const LENGTH_BYTES = 4;

export interface CStrings {
  /** The NUL-terminated texts. Must live until the pointers have been read. */
  readonly content: Uint8Array;
  readonly pointers: BigUint64Array;
}

/**
 * Copies the elements once and ends each by NUL in place: the first byte of the next element's length is free for that.
 * An embedded NUL cuts an element, as it does in every C string.
 * @throws RangeError when the bytes are not exactly `count` elements
 */
export function toCStrings(data: Uint8Array, count: number): CStrings {
  const content = Buffer.allocUnsafe(data.byteLength + 1);
  content.set(data);
  content[data.byteLength] = 0;
  const base: Address = addressOf(content);
  const lengths = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const pointers = new BigUint64Array(count);
  let offset = 0;
  for (let index = 0; index < count; index++) {
    if (offset + LENGTH_BYTES > data.byteLength) throw new RangeError(`string element ${index} has no length`);
    const length = lengths.getUint32(offset, true);
    content[offset] = 0;
    pointers[index] = base + BigInt(offset + LENGTH_BYTES);
    offset += LENGTH_BYTES + length;
  }
  if (offset !== data.byteLength) {
    throw new RangeError(`${count} string elements take ${offset} bytes, got ${data.byteLength}`);
  }
  return { content, pointers };
}

/** Contiguous elements, given by offset, in the wire's form. */
export function fromContent(content: Uint8Array, offsets: BigUint64Array): Uint8Array {
  const count = offsets.length;
  const wire = Buffer.allocUnsafe(content.byteLength + count * LENGTH_BYTES);
  let position = 0;
  for (let index = 0; index < count; index++) {
    const start = Number(offsets[index]);
    const end = index + 1 < count ? Number(offsets[index + 1]) : content.byteLength;
    position = wire.writeUInt32LE(end - start, position);
    wire.set(content.subarray(start, end), position);
    position += end - start;
  }
  return wire;
}
