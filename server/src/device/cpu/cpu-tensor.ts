/** A tensor of the CPU device: where ggml keeps it, its type and its shape. It knows neither memory nor graphs. */
import type { Address } from "../../native/ffi.ts";
import { GGML_BLOCK_NAMES } from "../../native/ggml/block-types.ts";
import { GGML_BLOCKS, type GgmlType } from "../../native/ggml/ggml.ts";

export type CpuType = GgmlType;

export interface CpuTensor {
  /** The ggml_tensor. */
  readonly handle: Address;
  readonly type: CpuType;
  /** Outermost dimension first, unlike ggml's `ne`. */
  readonly shape: readonly number[];
}

/** Types of a matrix of weights. With block types a row is whole blocks. */
export const WEIGHT_TYPES: readonly CpuType[] = ["f32", "f16", "bf16", ...GGML_BLOCK_NAMES];

/** Bytes of one element; an exact fraction if a block of elements shares scales. */
export const CPU_TYPE_BYTES: Readonly<Record<CpuType, number>> = Object.freeze(
  Object.fromEntries(
    Object.entries(GGML_BLOCKS).map(([type, { numElements, numBytes }]) => [type, numBytes / numElements]),
  ) as Record<CpuType, number>,
);

/** Guards tensors of block types. @throws Error naming the type */
export function expectWholeBlocks(type: CpuType, shape: readonly number[]): void {
  const { numElements: block } = GGML_BLOCKS[type];
  const row = shape.at(-1) ?? 1;
  if (row % block !== 0) throw new Error(`${type}: expected rows of a multiple of ${block}, got ${row}`);
}

export function numElements(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

export function byteSize(tensor: Pick<CpuTensor, "type" | "shape">): number {
  return numElements(tensor.shape) * CPU_TYPE_BYTES[tensor.type];
}

/** Guards an op: ggml would abort the process. -1 stands for any size. @throws Error naming op and tensor */
export function expectTensor(
  where: string,
  tensor: CpuTensor,
  types: readonly CpuType[],
  shape: readonly number[],
): void {
  const fits =
    tensor.shape.length === shape.length && shape.every((size, i) => size === -1 || size === tensor.shape[i]);
  if (fits && types.includes(tensor.type)) return;
  const expected = `${types.join("|")}[${shape.map((size) => (size === -1 ? "*" : size)).join(", ")}]`;
  throw new Error(`${where}: expected ${expected}, got ${tensor.type}[${tensor.shape.join(", ")}]`);
}

export type CpuShape = readonly [number] | readonly [number, number] | readonly [number, number, number];

export interface CpuTensorSpec {
  readonly type: CpuType;
  /** Outermost first. */
  readonly shape: CpuShape;
}
