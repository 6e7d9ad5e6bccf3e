/** The layout of BYTES tensors: elements back to back, each a 4-byte little-endian length and that many bytes. */
import { ServerError } from "./server-error.ts";
import { elementCount, type Tensor } from "./tensor.ts";

const LENGTH_BYTES = 4;

/** Checks that `data` holds exactly the elements that the shape says. `where` names tensor and model for the message. */
export function expectBytesElements(data: Uint8Array, expected: number, where: string): void {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let offset = 0;
  let count = 0;
  while (offset < data.length) {
    if (count === expected) {
      throw invalid(`unexpected number of string elements ${count + 1} for ${where}, expecting ${expected}`);
    }
    const left = data.length - offset;
    if (left < LENGTH_BYTES) {
      throw invalid(
        `incomplete string length indicator for ${where}, expecting ${LENGTH_BYTES} bytes but only ${left} bytes available. Please make sure the string length indicator is in one buffer.`,
      );
    }
    const length = view.getUint32(offset, true);
    if (length > left - LENGTH_BYTES) {
      throw invalid(
        `incomplete string data for ${where}, expecting string of length ${length} but only ${left - LENGTH_BYTES} bytes available`,
      );
    }
    offset += LENGTH_BYTES + length;
    count += 1;
  }
  if (count !== expected) throw invalid(`expected ${expected} string elements for ${where}, got ${count}`);
}

/** The elements of a checked BYTES tensor, as views. @throws ServerError when the framing is broken */
export function bytesElements(tensor: Tensor): Uint8Array[] {
  const expected = elementCount(tensor.shape);
  expectBytesElements(tensor.data, expected, `tensor '${tensor.name}'`);
  const { data } = tensor;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
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
  const parts = elements.map((element) => (typeof element === "string" ? new TextEncoder().encode(element) : element));
  const size = parts.reduce((sum, part) => sum + LENGTH_BYTES + part.length, 0);
  const data = new Uint8Array(size);
  const view = new DataView(data.buffer);
  let offset = 0;
  for (const part of parts) {
    view.setUint32(offset, part.length, true);
    data.set(part, offset + LENGTH_BYTES);
    offset += LENGTH_BYTES + part.length;
  }
  return data;
}

function invalid(message: string): ServerError {
  return new ServerError("invalid_argument", message);
}
