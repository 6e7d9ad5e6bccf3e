/**
 * Shared by launchers: the defines of element types, argument shorthands, checks of sizes. Launches nothing. Source:
 * kernel parameters of cuLaunchKernel, CUDA Driver API.
 */
import type { DevicePointer, KernelArg } from "../../src/device/cuda/kernel-stream.ts";

/** Storage type of activations. */
export type ElemType = "bf16" | "f32";

export const ELEM_BYTES: Readonly<Record<ElemType, number>> = { bf16: 2, f32: 4 };
/** Elements of one 16-byte access. */
export const ELEM_VEC: Readonly<Record<ElemType, number>> = { bf16: 8, f32: 4 };

export type Defines = Readonly<Record<string, string | number>>;

const ELEM_DEFINES: Readonly<Record<ElemType, Defines>> = { bf16: { ELEM_BF16: 1 }, f32: { ELEM_F32: 1 } };
/** A pointer that the compiled variant of a kernel does not read. */
const NULL: KernelArg = { ptr: 0n };

export function elemDefines(type: ElemType): Defines {
  return ELEM_DEFINES[type];
}

export function ptr(address: DevicePointer | undefined): KernelArg {
  return address === undefined ? NULL : { ptr: address };
}

export function i32(value: number): KernelArg {
  return { i32: value };
}

export function f32(value: number): KernelArg {
  return { f32: value };
}

export function ceilDiv(value: number, by: number): number {
  return Math.ceil(value / by);
}

export function roundUp(value: number, to: number): number {
  return Math.ceil(value / to) * to;
}

/** Rows are read 16 bytes at a time. */
export function expectWidth(op: string, width: number, type: ElemType): void {
  const vec = ELEM_VEC[type];
  if (Number.isInteger(width) && width >= vec && width % vec === 0) return;
  throw new Error(`${op}: expected rows of a multiple of ${vec} elements of ${type}, got ${width}`);
}

export function expectCount(op: string, what: string, count: number): void {
  if (!Number.isInteger(count) || count < 1) throw new Error(`${op}: expected at least one ${what}, got ${count}`);
}

/** How one block holds a row in registers: threads, and vectors of 16 bytes a thread. */
export interface RowShape {
  readonly threads: number;
  readonly vectors: number;
}

const MAX_THREADS = 1024;
/** More would spill to memory. */
const MAX_VECTORS = 8;

export function rowShape(op: string, width: number, type: ElemType): RowShape {
  expectWidth(op, width, type);
  const total = width / ELEM_VEC[type];
  const vectors = ceilDiv(total, MAX_THREADS);
  if (vectors > MAX_VECTORS) {
    throw new Error(`${op}: expected rows of at most ${MAX_VECTORS * MAX_THREADS * ELEM_VEC[type]}, got ${width}`);
  }
  return { threads: roundUp(ceilDiv(total, vectors), 32), vectors };
}
