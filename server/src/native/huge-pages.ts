/** Requests huge pages for a memory range (madvise(2), MADV_HUGEPAGE), which saves large matrices most TLB misses. */
import process from "node:process";
import { type Address, type NativeFunction, openLibrary } from "./ffi.ts";

/** As <sys/mman.h> of Linux has it. */
const MADV_HUGEPAGE = 14;
const PAGE_BYTES = 4096n;

let madvise: NativeFunction<[Address, number, number], number> | undefined;

/** A hint to give before the memory is touched; systems without huge pages ignore it. */
export function adviseHugePages(address: Address, byteLength: number): void {
  if (process.platform !== "linux") return;
  madvise ??= openLibrary(null).func<[Address, number, number], number>("madvise", "int", ["void*", "size_t", "int"]);
  const first = ((address + PAGE_BYTES - 1n) / PAGE_BYTES) * PAGE_BYTES;
  const length = BigInt(byteLength) - (first - address);
  if (length > 0n) madvise(first, Number(length), MADV_HUGEPAGE);
}
