/**
 * POSIX shared memory (shm_open(3), mmap(2)): opens an object and maps a part of it. Knows no region names and no
 * requests.
 * Views may outlive a mapping, because an abandoned run on another thread still reads its inputs. So `close()` replaces
 * the object by private zero pages at the same addresses. The addresses are freed when the last view has been
 * collected.
 * An object that another process truncates loses its pages in every mapping, and touching them raises SIGBUS.
 * `isIntact()` detects that before use; nothing protects against a later truncation.
 */
import { closeSync, constants, fstatSync } from "node:fs";
import process from "node:process";
import { type Address, lastErrno, type NativeFunction, openLibrary, viewMemory } from "./ffi.ts";

/** Values of <sys/mman.h> on Linux. */
const PROT_READ_WRITE = 3;
const MAP_SHARED = 0x01;
const MAP_PRIVATE = 0x02;
const MAP_FIXED = 0x10;
const MAP_ANONYMOUS = 0x20;
const MAP_NORESERVE = 0x4000;
const MAP_FAILED: Address = 2n ** 64n - 1n;
const OWNER_READ_WRITE = 0o600;

interface MemoryCalls {
  readonly shmOpen: NativeFunction<[string, number, number], number>;
  readonly mmap: NativeFunction<[Address | null, number, number, number, number, number], Address>;
  readonly munmap: NativeFunction<[Address, number], number>;
  readonly strerror: NativeFunction<[number], string>;
}

let calls: MemoryCalls | undefined;

/** Reason of the failure: no such object, object smaller than the requested part, or mapping refused. */
export type MappingFault = "object" | "bounds" | "mapping";

export class MappingError extends Error {
  readonly fault: MappingFault;

  constructor(fault: MappingFault, message: string) {
    super(message);
    this.name = "MappingError";
    this.fault = fault;
  }
}

export interface SharedMapping {
  /** The mapped bytes, without a copy. Not to be called after `close()`. */
  bytes(): Uint8Array;
  /** False when the object has become shorter than the mapping: its bytes must not be touched. */
  isIntact(): boolean;
  /** Releases the object. Existing views read as zeros from now on. */
  close(): void;
}

interface Range {
  readonly address: Address;
  readonly byteLength: number;
}

/** Location of a part of an object, for other processes. */
export interface ObjectPart {
  /** Descriptor of this process, open until the mapping is closed. */
  readonly descriptor: number;
  readonly device: number;
  readonly inode: number;
  readonly offset: number;
}

/** Location in the object, by the buffer of an open mapping. */
const mapped = new WeakMap<ArrayBufferLike, ObjectPart>();

/** Location of these bytes; undefined when they are not in a mapping. */
export function findObject(bytes: Uint8Array): ObjectPart | undefined {
  const start = mapped.get(bytes.buffer);
  return start === undefined ? undefined : { ...start, offset: start.offset + bytes.byteOffset };
}

const unreachable = new FinalizationRegistry<Range>(({ address, byteLength }) => {
  calls?.munmap(address, byteLength);
});

/**
 * Maps bytes `offset` to `offset + byteLength` of an object for reading and writing. `offset` must be a multiple of the
 * page size. @throws MappingError; for "mapping", its message is the system's
 */
export function mapSharedMemory(name: string, offset: number, byteLength: number): SharedMapping {
  const { shmOpen } = loadCalls();
  const descriptor = shmOpen(name, constants.O_RDWR, OWNER_READ_WRITE);
  if (descriptor < 0) throw new MappingError("object", `cannot open the shared memory object '${name}'`);
  try {
    return new PosixMapping(descriptor, offset, byteLength);
  } catch (error) {
    closeSync(descriptor);
    throw error;
  }
}

class PosixMapping implements SharedMapping {
  readonly #descriptor: number;
  /** End offset of the mapped part in the object. */
  readonly #end: number;
  readonly #range: Range;
  #bytes: Uint8Array | undefined;

  constructor(descriptor: number, offset: number, byteLength: number) {
    this.#descriptor = descriptor;
    this.#end = offset + byteLength;
    if (!this.isIntact()) throw new MappingError("bounds", `the object has less than ${this.#end} bytes`);
    const { mmap, strerror } = loadCalls();
    const address = mmap(null, byteLength, PROT_READ_WRITE, MAP_SHARED, descriptor, offset);
    if (address === MAP_FAILED) throw new MappingError("mapping", strerror(lastErrno()));
    this.#range = { address, byteLength };
  }

  bytes(): Uint8Array {
    if (this.#bytes === undefined) {
      this.#bytes = viewMemory(this.#range.address, this.#range.byteLength);
      unreachable.register(this.#bytes.buffer, this.#range);
      const { dev: device, ino: inode } = fstatSync(this.#descriptor);
      const offset = this.#end - this.#range.byteLength;
      mapped.set(this.#bytes.buffer, { descriptor: this.#descriptor, device, inode, offset });
    }
    return this.#bytes;
  }

  isIntact(): boolean {
    const stat = fstatSync(this.#descriptor);
    return stat.isFile() && stat.size >= this.#end;
  }

  close(): void {
    const { address, byteLength } = this.#range;
    const { mmap, munmap } = loadCalls();
    if (this.#bytes === undefined) munmap(address, byteLength);
    else mmap(address, byteLength, PROT_READ_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (this.#bytes !== undefined) mapped.delete(this.#bytes.buffer);
    this.#bytes = undefined;
    closeSync(this.#descriptor);
  }
}

/** @throws MappingError on other systems than Linux, whose constants differ */
function loadCalls(): MemoryCalls {
  if (calls !== undefined) return calls;
  if (process.platform !== "linux") throw new MappingError("object", "shared memory objects need Linux");
  const libc = openLibrary(null);
  calls = {
    shmOpen: libc.func("shm_open", "int", ["str", "int", "uint32"]),
    mmap: libc.func("mmap", "void*", ["void*", "size_t", "int", "int", "int", "int64"]),
    munmap: libc.func("munmap", "int", ["void*", "size_t"]),
    strerror: libc.func("strerror", "str", ["int"]),
  };
  return calls;
}
