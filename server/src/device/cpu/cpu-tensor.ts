/** A tensor of the CPU device: where ggml keeps it, its type and its shape. It knows neither memory nor graphs. */
import type { Address } from "../../native/ffi.ts";
import type { GgmlType } from "../../native/ggml.ts";

export type CpuType = GgmlType;

export interface CpuTensor {
  /** The ggml_tensor. */
  readonly handle: Address;
  readonly type: CpuType;
  /** Outermost dimension first, unlike ggml's `ne`. */
  readonly shape: readonly number[];
}

export const CPU_TYPE_BYTES: Readonly<Record<CpuType, number>> = { f32: 4, f16: 2, bf16: 2, i32: 4 };

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
