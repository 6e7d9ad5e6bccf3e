/**
 * Weights by Hugging Face names, independent of file format and storage. `openSafetensors()` returns one; other formats
 * convert their names and layouts to it. Sources: safetensors README for types, ggml-common.h for block types.
 */

import { SAFETENSORS_DTYPE_BYTES, type SafetensorsDtype } from "./safetensors-header.ts";
import type { StoredInt4Groups, StoredInt4Matrix } from "./stored-int4.ts";

/** Elements of a row share scales in blocks, laid out as in ggml. */
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
  IQ2_XXS: { numElements: 256, numBytes: 66 },
  IQ2_XS: { numElements: 256, numBytes: 74 },
  IQ3_XXS: { numElements: 256, numBytes: 98 },
  IQ1_S: { numElements: 256, numBytes: 50 },
  IQ4_NL: { numElements: 32, numBytes: 18 },
  IQ3_S: { numElements: 256, numBytes: 110 },
  IQ2_S: { numElements: 256, numBytes: 82 },
  IQ4_XS: { numElements: 256, numBytes: 136 },
  IQ1_M: { numElements: 256, numBytes: 56 },
  TQ1_0: { numElements: 256, numBytes: 54 },
  TQ2_0: { numElements: 256, numBytes: 66 },
  MXFP4: { numElements: 32, numBytes: 17 },
} as const;
export type PackedDtype = keyof typeof PACKED_BLOCKS;
export type TensorDtype = SafetensorsDtype | PackedDtype;

export interface StoredTensor {
  readonly name: string;
  readonly dtype: TensorDtype;
  /** Outermost dimension first. Blocks run along the innermost. */
  readonly shape: readonly number[];
  readonly byteLength: number;
  /** Type in the files, when the tensor is widened while it is read. */
  readonly widenedFrom?: TensorDtype | undefined;
}

export interface TensorSource {
  readonly tensors: ReadonlyMap<string, StoredTensor>;
  /** Fills `into` from the bytes of a tensor that begin at `byteOffset` within it. */
  read(name: string, into: Uint8Array, byteOffset?: number): Promise<void>;
  /** Quantized matrices among the tensors, for devices that do not take ggml blocks. */
  readonly integers?: ReadonlyMap<string, IntegerTensor> | undefined;
  /** Stacked matrices of experts among the tensors that are stored as MXFP4. */
  readonly mxfp4?: ReadonlyMap<string, Mxfp4Tensor> | undefined;
  /** Reads rows of a widened tensor directly in the requested type, without an FP32 copy in between. */
  readWidened?(name: string, type: "f32" | "bf16", firstRow: number, numRows: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export interface IntegerTensor {
  /** INT4 storage in groups of consecutive inputs; undefined when only floats are available. */
  readonly int4: StoredInt4Groups | undefined;
  /** Only present with INT4 storage. */
  readInt4(): Promise<StoredInt4Matrix>;
  /** [numRows, inputs] */
  readFloats(firstRow: number, numRows: number): Promise<Float32Array>;
}

/** Matrices of experts in MXFP4 (OCP Microscaling Formats v1.0): blocks of 32 inputs with a power of two each. */
export interface Mxfp4Tensor {
  readExpert(expert: number): Promise<Mxfp4Matrix>;
}

export interface Mxfp4Matrix {
  /** [rows, inputs / 32, 16]: E2M1, input 2k of a block in the lower half of byte k. */
  readonly blocks: Uint8Array;
  /** E8M0 [rows, inputs / 32] */
  readonly exponents: Uint8Array;
}

export function isPackedDtype(dtype: TensorDtype): dtype is PackedDtype {
  return Object.hasOwn(PACKED_BLOCKS, dtype);
}

/** Bytes of a row of `length` elements, which is a whole number of blocks. */
export function rowBytes(dtype: TensorDtype, length: number): number {
  if (!isPackedDtype(dtype)) return length * SAFETENSORS_DTYPE_BYTES[dtype];
  const { numElements, numBytes } = PACKED_BLOCKS[dtype];
  return (length / numElements) * numBytes;
}

/** Bytes of a tensor. Sizes have been checked, so the product is a safe integer. */
export function tensorBytes(dtype: TensorDtype, shape: readonly number[]): number {
  return rowBytes(
    dtype,
    shape.reduce((product, size) => product * size, 1),
  );
}

/** Validates the range of a `read`. @throws Error naming the tensor */
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
