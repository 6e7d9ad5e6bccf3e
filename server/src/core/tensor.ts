/** A named tensor in host memory. Knows no protocol and no backend. */
import { type Datatype, elementSize } from "@nereid/wire";
import { invalidArgument } from "./server-error.ts";

/**
 * `data` is little-endian and row-major. BYTES elements are contiguous, each after a 4-byte little-endian length
 * (KServe V2 binary tensor data). `data` may be an unaligned slice of a larger buffer, and belongs to the request until
 * its last response.
 */
export interface Tensor {
  readonly name: string;
  readonly datatype: Datatype;
  readonly shape: readonly number[];
  readonly data: Uint8Array;
}

/** Datatype of a tensor whose client named none that there is; the validation of the request refuses it before anything reads it. */
export const INVALID_DATATYPE = "<invalid>" as Datatype;

/** Number of elements of a shape without -1. @throws ServerError when the product exceeds the safe integers */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (const dim of shape) count *= dim;
  if (!Number.isSafeInteger(count) || count < 0) {
    throw invalidArgument(`shape [${shape.join(",")}] has an element count that is out of range`);
  }
  return count;
}

/** Byte size of a tensor of a fixed-size datatype; undefined for BYTES, whose size depends on its elements. */
export function byteSize(datatype: Datatype, shape: readonly number[]): number | undefined {
  return datatype === "BYTES" ? undefined : elementCount(shape) * elementSize(datatype);
}
