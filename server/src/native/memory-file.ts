/**
 * Memory that another process can map but nobody can name: an anonymous file, handed on by inheritance of its descriptor.
 * It only grows: sealed against shrinking, so that no other process can take pages away from under this one. Linux only.
 */
import { closeSync, ftruncateSync } from "node:fs";
import process from "node:process";
import { type Address, lastErrno, type NativeFunction, openLibrary, viewMemory } from "./ffi.ts";

/** As the headers of Linux have them. */
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

/** A part of the file, mapped. */
export interface MemoryRange {
  readonly offset: number;
  /** Not to be touched after the file is closed. */
  readonly bytes: Uint8Array;
}

export class MemoryFile implements Disposable {
  readonly descriptor: number;
  readonly #mapped: { readonly address: Address; readonly byteLength: number }[] = [];
  #byteLength = 0;
  #isClosed = false;

  /** `name` shows in /proc only. @throws Error where the system refuses */
  constructor(name: string) {
    const { memfdCreate, fcntl } = loadCalls();
    this.descriptor = memfdCreate(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (this.descriptor < 0) throw failure("memfd_create");
    if (fcntl(this.descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
      const error = failure("fcntl(F_ADD_SEALS)");
      closeSync(this.descriptor);
      throw error;
    }
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

  /** Gives the memory of a range back to the system; it reads as zeros then, and may be written again. */
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
