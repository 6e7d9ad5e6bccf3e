/** Settings of the C library's allocator (mallopt(3)), for the whole process. */
import { openLibrary } from "./ffi.ts";

const M_TRIM_THRESHOLD = -1;
const M_MMAP_THRESHOLD = -3;
/** The maximum of glibc: blocks up to this size are reused, larger ones return to the system at once. */
const REUSED_BLOCK_BYTES: number = 32 * 1024 * 1024;
/** Freed bytes that the process keeps. */
const KEPT_BYTES: number = 128 * 1024 * 1024;

/**
 * Makes glibc reuse freed blocks of request size instead of returning them. Fresh pages cost more than the computation
 * on them (`onnx.bench.ts`, 600 KB rows). False when the C library has no such setting. Call once, at the start.
 */
export function keepFreedMemory(): boolean {
  const libc = openLibrary(null);
  if (!libc.has("mallopt")) return false;
  const mallopt = libc.func<[number, number], number>("mallopt", "int", ["int", "int"]);
  return mallopt(M_MMAP_THRESHOLD, REUSED_BLOCK_BYTES) === 1 && mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) === 1;
}
