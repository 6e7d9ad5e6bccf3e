/**
 * Weights by the names that Hugging Face gives them, whatever files they lie in and however these store them. What
 * `openSafetensors()` opens is one; the others turn their own names and layouts into these.
 */
import type { StoredInt4Groups, StoredInt4Matrix } from "../quantized/quantized-matrix.ts";
import { SAFETENSORS_DTYPE_BYTES, type SafetensorsDtype } from "./safetensors-header.ts";

/** Elements of a row in blocks that share scales, laid out as ggml lays them out. */
export const PACKED_BLOCKS = {
  Q4_0: { numElements: 32, numBytes: 18 },
  Q4_1: { numElements: 32, numBytes: 20 },
  Q5_0: { numElements: 32, numBytes: 22 },
  Q5_1: { numElements: 32, numBytes: 24 },
  Q8_0: { numElements: 32, numBytes: 34 },
  Q2_K: { numElements: 256, numBytes: 84 },
  Q3_K: { numElements: 256, numBytes: 110 },
  Q4_K: { numElements: 256, numBytes: 144 },
  Q5_K: { numElements: 256, numBytes: 176 },
  Q6_K: { numElements: 256, numBytes: 210 },
} as const;
export type PackedDtype = keyof typeof PACKED_BLOCKS;
export type TensorDtype = SafetensorsDtype | PackedDtype;

export interface StoredTensor {
  readonly name: string;
  readonly dtype: TensorDtype;
  /** Outermost dimension first. Blocks run along the innermost. */
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** What the files have, where it is read as something wider. */
  readonly widenedFrom?: TensorDtype | undefined;
}

export interface TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  /** Fills `into` from the bytes of a tensor that begin at `byteOffset` within it. */
  read(name: string, into: Uint8Array, byteOffset?: number): Promise<void>;
  /** Matrices among the tensors that are stored as integers with scales, for devices that do not take them as blocks. */
  readonly integers?: ReadonlyMap<string, IntegerTensor> | undefined;
  /** Rows of a tensor that is widened while it is read, in the type that is wanted: sooner than as F32 and from there. */
  readWidened?(name: string, type: "f32" | "bf16", firstRow: number, numRows: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export interface IntegerTensor {
  /** How it is stored in 4 bits, in whole groups of neighbouring inputs; undefined: only floats are to be had. */
  readonly int4: StoredInt4Groups | undefined;
  /** Only where it is stored so. */
  readInt4(): Promise<StoredInt4Matrix>;
  /** [numRows, inputs] */
  readFloats(firstRow: number, numRows: number): Promise<Float32Array>;
}

export function isPackedDtype(dtype: TensorDtype): dtype is PackedDtype {
  return Object.hasOwn(PACKED_BLOCKS, dtype);
}

/** Of a row of `length` elements, which is whole blocks. */
export function rowBytes(dtype: TensorDtype, length: number): number {
  if (!isPackedDtype(dtype)) return length * SAFETENSORS_DTYPE_BYTES[dtype];
  const { numElements, numBytes } = PACKED_BLOCKS[dtype];
  return (length / numElements) * numBytes;
}

/** Bytes of a tensor. Sizes have been checked: the product is a safe integer. */
export function tensorBytes(dtype: TensorDtype, shape: readonly number[]): number {
  return rowBytes(
    dtype,
    shape.reduce((product, size) => product * size, 1),
  );
}

/** Guards `read`. @throws Error naming the tensor */
export function expectTensorRange(
  tensors: ReadonlyMap<string, StoredTensor>,
  name: string,
  length: number,
  byteOffset: number,
): StoredTensor {
  const tensor = tensors.get(name);
  if (tensor === undefined) throw new Error(`the model has no tensor "${name}"`);
  if (byteOffset < 0 || length > tensor.byteLength - byteOffset) {
    throw new Error(`bytes ${byteOffset} to ${byteOffset + length} lie outside "${name}"`);
  }
  return tensor;
}
