/**
 * The memory of an emulated device: each piece lies between pages that nobody may touch, and what surrounds it within
 * its own pages is looked at when the pieces are freed. Knows no kernel.
 */
import { type Address, type NativeFunction, openLibrary, type Pointer } from "../../server/src/native/ffi.ts";

const PAGE_BYTES = 4096;
/** Kernels may read a vector further than they use, as on a real device. */
const SLACK_BYTES = 256;
const NONE = 0;
const READ_WRITE = 3;
const PRIVATE_ANONYMOUS = 0x22;
const MAP_FAILED: Address = 2n ** 64n - 1n;
const AROUND = 0xff;

interface Piece {
  readonly address: Address;
  readonly numBytes: number;
  /** Pages that may be touched. */
  readonly pages: Address;
  readonly pageBytes: number;
}

export class GuardedMemory {
  readonly #pieces: Piece[] = [];
  readonly #mmap: NativeFunction<[null, number, number, number, number, number], Address>;
  readonly #mprotect: NativeFunction<[Address, number, number], number>;
  readonly #munmap: NativeFunction<[Address, number], number>;
  readonly #memcpy: NativeFunction<[Pointer, Pointer, number], void>;
  readonly #memset: NativeFunction<[Pointer, number, number], void>;

  constructor() {
    const libc = openLibrary(null);
    this.#mmap = libc.func("mmap", "void*", ["void*", "size_t", "int", "int", "int", "int64"]);
    this.#mprotect = libc.func("mprotect", "int", ["void*", "size_t", "int"]);
    this.#munmap = libc.func("munmap", "int", ["void*", "size_t"]);
    this.#memcpy = libc.func("memcpy", "void", ["void*", "void*", "size_t"]);
    this.#memset = libc.func("memset", "void", ["void*", "int", "size_t"]);
  }

  /** Every byte is `fill`. Aligned as memory of a device is, to 256 bytes. */
  allocate(numBytes: number, fill: number): Address {
    const spanBytes = Math.ceil((numBytes + SLACK_BYTES) / 256) * 256;
    const pageBytes = Math.ceil(spanBytes / PAGE_BYTES) * PAGE_BYTES;
    const mapped = this.#mmap(null, pageBytes + 2 * PAGE_BYTES, NONE, PRIVATE_ANONYMOUS, -1, 0);
    if (mapped === MAP_FAILED) throw new Error(`no ${pageBytes} bytes of memory for an emulated device`);
    const pages = mapped + BigInt(PAGE_BYTES);
    this.#mprotect(pages, pageBytes, READ_WRITE);
    this.#memset(pages, AROUND, pageBytes);
    const address = pages + BigInt(pageBytes - spanBytes);
    this.#memset(address, fill, numBytes);
    this.#pieces.push({ address, numBytes, pages, pageBytes });
    return address;
  }

  write(to: Address, from: ArrayBufferView): void {
    if (from.byteLength > 0) this.#memcpy(to, from, from.byteLength);
  }

  read(into: ArrayBufferView, from: Address): void {
    if (into.byteLength > 0) this.#memcpy(into, from, into.byteLength);
  }

  /** Frees all. @throws Error when something wrote around a piece */
  clear(): void {
    const spoiled = this.#pieces.filter((piece) => !this.#isIntact(piece));
    for (const { pages, pageBytes } of this.#pieces) {
      this.#munmap(pages - BigInt(PAGE_BYTES), pageBytes + 2 * PAGE_BYTES);
    }
    this.#pieces.length = 0;
    if (spoiled.length === 0) return;
    throw new Error(`a kernel wrote outside of pieces of ${spoiled.map(({ numBytes }) => numBytes).join(", ")} bytes`);
  }

  #isIntact({ address, numBytes, pages, pageBytes }: Piece): boolean {
    const before = Buffer.alloc(Number(address - pages));
    const behind = Buffer.alloc(pageBytes - before.length - numBytes);
    this.read(before, pages);
    this.read(behind, address + BigInt(numBytes));
    return before.every((byte) => byte === AROUND) && behind.every((byte) => byte === AROUND);
  }
}
