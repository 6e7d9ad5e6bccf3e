/**
 * Shared memory and instructions that an architecture offers. Source: compute capabilities of the CUDA C++ Programming
 * Guide.
 */

const KIB = 1024;
const SHARED_BYTES: ReadonlyMap<string, number> = new Map([
  ["80", 163 * KIB],
  ["86", 99 * KIB],
  ["87", 163 * KIB],
  ["89", 99 * KIB],
  ["90", 227 * KIB],
  ["100", 227 * KIB],
  ["103", 227 * KIB],
  ["120", 99 * KIB],
]);
/** Every device that has tensor cores for bf16 gives this much. */
const LEAST_SHARED_BYTES = 99 * KIB;

/** Dynamic shared memory of one block at most; a multiprocessor has 1 KiB a block more than that. `arch` as "sm_90a". */
export function sharedBytesPerBlock(arch: string): number {
  const digits = /^sm_(\d+)/.exec(arch)?.[1] ?? "";
  return SHARED_BYTES.get(digits) ?? LEAST_SHARED_BYTES;
}

/** Whether the instructions of Hopper's own tensor cores are there. */
export function hasWgmma(arch: string): boolean {
  return arch === "sm_90a";
}
