/** Inputs and results of GPU checks: numbers from a seed, stored as a kernel reads them. */
import type { DevicePointer } from "../../src/device/cuda/kernel-stream.ts";
import type { CudaCheckContext } from "./cuda-check.ts";
import { type CudaElement, ELEMENT_BYTES, emptyElements, fromElements, toElements } from "./cuda-elements.ts";

/** Input of both sides: the stored form for the device, the rounded numbers for the reference. */
export interface CheckInput {
  readonly pointer: DevicePointer;
  readonly values: Float32Array;
}

/** `spread` times numbers in -1..1. */
export function seededFloats(count: number, seed: number, spread = 1): Float32Array {
  const out = new Float32Array(count);
  let state = (Math.imul(seed, 2654435761) ^ 0x9e3779b9) >>> 0;
  for (let i = 0; i < count; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    out[i] = spread * (state / 2 ** 31 - 1);
  }
  return out;
}

/** Whole numbers in 0..end-1. */
export function seededInts(count: number, seed: number, end: number): Int32Array {
  return Int32Array.from(seededFloats(count, seed), (x) => Math.min(end - 1, Math.floor(((x + 1) / 2) * end)));
}

/** The numbers 0..count-1 in an order of the seed. */
export function seededOrder(count: number, seed: number): Int32Array {
  const keys = seededFloats(count, seed);
  return Int32Array.from({ length: count }, (_, i) => i).sort((a, b) => (keys[a] ?? 0) - (keys[b] ?? 0));
}

export function uploadRandom(
  context: CudaCheckContext,
  type: CudaElement,
  count: number,
  seed: number,
  spread = 1,
): CheckInput {
  if (context.isRecording === true) return unreadInput(context, count * ELEMENT_BYTES[type], count);
  return uploadFloats(context, type, seededFloats(count, seed, spread));
}

/** For a context that is recording. */
export function unreadInput(context: CudaCheckContext, numBytes: number, count: number): CheckInput {
  return { pointer: context.allocate(numBytes), values: new Float32Array(count) };
}

export function uploadFloats(context: CudaCheckContext, type: CudaElement, numbers: Float32Array): CheckInput {
  const stored = toElements(type, numbers);
  return { pointer: context.upload(stored), values: fromElements(type, stored) };
}

export function allocateFloats(context: CudaCheckContext, type: CudaElement, count: number): DevicePointer {
  return context.allocate(count * ELEMENT_BYTES[type]);
}

export async function downloadFloats(
  context: CudaCheckContext,
  type: CudaElement,
  from: DevicePointer,
  count: number,
): Promise<Float32Array> {
  const stored = emptyElements(type, count);
  await context.download(from, stored);
  return fromElements(type, stored);
}

const PATTERN = 1 << 16;

/** Many numbers at little cost, a pattern over and over: for timing, where only zeros would be wrong. */
export function uploadPattern(context: CudaCheckContext, type: CudaElement, count: number): DevicePointer {
  const pattern = toElements(type, seededFloats(Math.min(count, PATTERN), 1));
  const stored = emptyElements(type, count);
  for (let at = 0; at < count; at += PATTERN) stored.set(pattern.subarray(0, Math.min(PATTERN, count - at)), at);
  return context.upload(stored);
}
