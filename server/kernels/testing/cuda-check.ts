/**
 * How a GPU kernel shows that it is right and how fast it is. Each op exports `cudaChecks`; a program on a machine with
 * a GPU runs them all. Knows no driver: memory and launches come from the context.
 */
import type { DevicePointer, KernelStream } from "../../src/device/cuda/kernel-stream.ts";

export interface CudaCheckContext {
  readonly stream: KernelStream;
  /** Only the launches count: nothing is computed, and inputs need no numbers. */
  readonly isRecording?: boolean;
  /** Device memory with these bytes; freed when the check has ended. */
  upload(bytes: ArrayBufferView): DevicePointer;
  /** Device memory in which every byte is 0xff, so that what a kernel leaves out shows as NaN; freed likewise. */
  allocate(numBytes: number): DevicePointer;
  /** Device memory of zeros; freed likewise. */
  zeros(numBytes: number): DevicePointer;
  /** Fills `into` from device memory once all launches so far are done. */
  download(from: DevicePointer, into: ArrayBufferView): Promise<void>;
}

/** One timed case: the least bytes and operations that it must cost, so that a time becomes a share of the peak. */
export interface CudaBench {
  readonly name: string;
  readonly bytes: number;
  readonly flops: number;
  /** Enqueues the work once; called many times. `round` counts up, so that inputs can rotate past the L2 cache. */
  launch(round: number): void;
}

export interface CudaCheck {
  readonly name: string;
  /** Largest error that `run` may return. */
  readonly maxError: number;
  /** Coverage beyond the defines of its kernel, for choosing few checks that cover all. */
  readonly shows?: readonly string[];
  /** Its blocks wait for each other: only a device that runs them at once can show it. */
  readonly needsWholeGrid?: boolean;
  /** It uses WGMMA, which sm_90a alone has. */
  readonly needsWgmma?: boolean;
  /** Runs the kernel on fresh random inputs: norm of (result - reference) over norm of the reference. */
  run(context: CudaCheckContext): Promise<number>;
  readonly benches?: (context: CudaCheckContext) => readonly CudaBench[];
}

/** Norm of the difference over norm of the reference; infinite where something is no number or a length differs. */
export function relativeError(result: ArrayLike<number>, reference: ArrayLike<number>): number {
  if (result.length !== reference.length) return Number.POSITIVE_INFINITY;
  let difference = 0;
  let size = 0;
  for (let i = 0; i < reference.length; i++) {
    const expected = reference[i] ?? Number.NaN;
    difference += ((result[i] ?? Number.NaN) - expected) ** 2;
    size += expected ** 2;
  }
  if (!Number.isFinite(difference)) return Number.POSITIVE_INFINITY;
  return size === 0 ? Math.sqrt(difference) : Math.sqrt(difference / size);
}

/** Share of places at which two lists of whole numbers differ, for results that must be equal. */
export function shareOfDifferences(result: ArrayLike<number>, reference: ArrayLike<number>): number {
  if (result.length !== reference.length) return Number.POSITIVE_INFINITY;
  let count = 0;
  for (let i = 0; i < reference.length; i++) count += result[i] === reference[i] ? 0 : 1;
  return reference.length === 0 ? 0 : count / reference.length;
}
