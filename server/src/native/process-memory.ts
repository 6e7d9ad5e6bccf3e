/** How the C library of this process keeps memory. Concerns every buffer of the server, not one of its rooms. */
import { openLibrary } from "./ffi.ts";

const M_TRIM_THRESHOLD = -1;
const M_MMAP_THRESHOLD = -3;
/** The largest that glibc takes: blocks up to this size are reused, larger ones go back to the system at once. */
const REUSED_BLOCK_BYTES: number = 32 * 1024 * 1024;
/** Freed memory that the process holds on to. */
const KEPT_BYTES: number = 128 * 1024 * 1024;

/**
 * Makes glibc reuse freed blocks of request size instead of returning them: fresh pages cost more than what is computed on
 * them, see the 600 KB rows of `onnx.bench.ts`. False where the C library has no such setting. Call once, at the start.
 */
export function keepFreedMemory(): boolean {
  const libc = openLibrary(null);
  if (!libc.has("mallopt")) return false;
  const mallopt = libc.func<[number, number], number>("mallopt", "int", ["int", "int"]);
  return mallopt(M_MMAP_THRESHOLD, REUSED_BLOCK_BYTES) === 1 && mallopt(M_TRIM_THRESHOLD, KEPT_BYTES) === 1;
}
