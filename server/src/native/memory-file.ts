/**
 * Anonymous memory files (memfd_create(2)), shared by passing the descriptor to a child. Sealed against shrinking, so
 * that no other process can remove pages (F_SEAL_SHRINK). Linux only.
 */
import { closeSync, ftruncateSync } from "node:fs";
import process from "node:process";
import { type Address, lastErrno, type NativeFunction, openLibrary, viewMemory } from "./ffi.ts";

/** Values of the Linux headers. */
const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const F_ADD_SEALS = 1033;
const F_SEAL_SEAL = 1;
const F_SEAL_SHRINK = 2;
const PROT_READ_WRITE = 3;
const MAP_SHARED = 1;
const MAP_FAILED: Address = 2n ** 64n - 1n;
const PUNCH_HOLE_KEEP_SIZE = 3;

interface FileCalls {
  readonly memfdCreate: NativeFunction<[string, number], number>;
  readonly fcntl: NativeFunction<[number, number, number], number>;
  readonly fallocate: NativeFunction<[number, number, number, number], number>;
  readonly mmap: NativeFunction<[Address | null, number, number, number, number, number], Address>;
  readonly munmap: NativeFunction<[Address, number], number>;
  readonly strerror: NativeFunction<[number], string>;
}

let calls: FileCalls | undefined;
/** A FinalizationRegistry works only while it is referenced. */
const viewed = new Set<SparseMemory>();

/** A mapped part of the file. */
export interface MemoryRange {
  readonly offset: number;
  /** Must not be accessed after the file is closed. */
  readonly bytes: Uint8Array;
}

export class MemoryFile implements Disposable {
  readonly descriptor: number;
  readonly #mapped: { readonly address: Address; readonly byteLength: number }[] = [];
  #byteLength = 0;
  #isClosed = false;

  /** `name` shows in /proc only. @throws Error when the system refuses */
  constructor(name: string) {
    this.descriptor = openSealed(name);
  }

  /** Adds `byteLength` bytes, a multiple of the page size, at the end. @throws Error where the system refuses */
  grow(byteLength: number): MemoryRange {
    const offset = this.#byteLength;
    ftruncateSync(this.descriptor, offset + byteLength);
    this.#byteLength = offset + byteLength;
    const address = loadCalls().mmap(null, byteLength, PROT_READ_WRITE, MAP_SHARED, this.descriptor, offset);
    if (address === MAP_FAILED) throw failure("mmap");
    this.#mapped.push({ address, byteLength });
    return { offset, bytes: viewMemory(address, byteLength) };
  }

  /** Returns the memory of a range to the system; it then reads as zeros, and may be written again. */
  discard({ offset, bytes }: MemoryRange): void {
    loadCalls().fallocate(this.descriptor, PUNCH_HOLE_KEEP_SIZE, offset, bytes.length);
  }

  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { munmap } = loadCalls();
    for (const { address, byteLength } of this.#mapped) munmap(address, byteLength);
    closeSync(this.descriptor);
  }
}

/**
 * A file of fixed size, allocated on write, whose parts are viewed separately. The mapping stays until the garbage
 * collector has taken the last view. A late reader sees other data, but never crashes.
 */
export class SparseMemory implements Disposable {
  readonly descriptor: number;
  readonly byteLength: number;
  readonly #address: Address;
  readonly #collected: FinalizationRegistry<() => void>;
  #numViews = 0;
  #isClosed = false;

  /** @throws Error where the system refuses */
  constructor(name: string, byteLength: number) {
    this.descriptor = openSealed(name);
    this.byteLength = byteLength;
    ftruncateSync(this.descriptor, byteLength);
    this.#address = loadCalls().mmap(null, byteLength, PROT_READ_WRITE, MAP_SHARED, this.descriptor, 0);
    if (this.#address === MAP_FAILED) {
      const error = failure("mmap");
      closeSync(this.descriptor);
      throw error;
    }
    this.#collected = new FinalizationRegistry((onCollected) => {
      this.#numViews -= 1;
      if (this.#numViews === 0) viewed.delete(this);
      onCollected();
      this.#unmapWhenUnseen();
    });
  }

  /**
   * A view of a part of the file. `onCollected`, which must not reference the view, is called when no view of it is
   * left.
   */
  view(offset: number, byteLength: number, onCollected: () => void): Uint8Array {
    const bytes = viewMemory(this.#address + BigInt(offset), byteLength);
    this.#collected.register(bytes.buffer, onCollected);
    this.#numViews += 1;
    viewed.add(this);
    return bytes;
  }

  /** Returns the memory to the system: existing views still read as zeros. */
  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    loadCalls().fallocate(this.descriptor, PUNCH_HOLE_KEEP_SIZE, 0, this.byteLength);
    closeSync(this.descriptor);
    this.#unmapWhenUnseen();
  }

  #unmapWhenUnseen(): void {
    if (this.#isClosed && this.#numViews === 0) loadCalls().munmap(this.#address, this.byteLength);
  }
}

/** @throws Error where the system refuses */
function openSealed(name: string): number {
  const { memfdCreate, fcntl } = loadCalls();
  const descriptor = memfdCreate(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) throw failure("memfd_create");
  if (fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
    const error = failure("fcntl(F_ADD_SEALS)");
    closeSync(descriptor);
    throw error;
  }
  return descriptor;
}

function failure(call: string): Error {
  return new Error(`${call}: ${loadCalls().strerror(lastErrno())}`);
}

function loadCalls(): FileCalls {
  if (calls !== undefined) return calls;
  if (process.platform !== "linux") throw new Error("memory files need Linux");
  const libc = openLibrary(null);
  calls = {
    memfdCreate: libc.func("memfd_create", "int", ["str", "uint32"]),
    fcntl: libc.func("fcntl", "int", ["int", "int", "int"]),
    fallocate: libc.func("fallocate", "int", ["int", "int", "int64", "int64"]),
    mmap: libc.func("mmap", "void*", ["void*", "size_t", "int", "int", "int", "int64"]),
    munmap: libc.func("munmap", "int", ["void*", "size_t"]),
    strerror: libc.func("strerror", "str", ["int"]),
  };
  return calls;
}
