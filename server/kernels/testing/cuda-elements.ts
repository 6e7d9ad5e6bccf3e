/** Numbers as the GPU kernels store them: f32, bf16, f16, fp8 e4m3. For checks; it knows no tensor. */

import { narrowToBf16, widenBf16 } from "../../src/core/bf16.ts";
import { narrowToFp8, widenFp8 } from "../../src/core/fp8.ts";
import { narrowToFp16, widenFp16 } from "../../src/core/fp16.ts";

export type CudaElement = "f32" | "bf16" | "f16" | "e4m3";
export type StoredElements = Float32Array | Uint16Array | Uint8Array;

export const ELEMENT_BYTES: Readonly<Record<CudaElement, number>> = { f32: 4, bf16: 2, f16: 2, e4m3: 1 };

export function emptyElements(type: CudaElement, count: number): StoredElements {
  if (type === "f32") return new Float32Array(count);
  return type === "e4m3" ? new Uint8Array(count) : new Uint16Array(count);
}

export function toElements(type: CudaElement, values: Float32Array): StoredElements {
  if (type === "f32") return values.slice();
  return { bf16: narrowToBf16, f16: narrowToFp16, e4m3: narrowToFp8 }[type](values);
}

export function fromElements(type: CudaElement, stored: StoredElements): Float32Array {
  if (type === "f32") return new Float32Array(stored);
  if (type === "e4m3") return widenFp8(new Uint8Array(stored));
  return (type === "f16" ? widenFp16 : widenBf16)(new Uint16Array(stored));
}

/** The numbers that remain after storing: what a kernel reads when it is given `values`. */
export function rounded(type: CudaElement, values: Float32Array): Float32Array {
  return fromElements(type, toElements(type, values));
}
