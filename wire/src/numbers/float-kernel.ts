/**
 * Reads and writes arrays of binary32 as JSON numbers (RFC 8259, section 6) by the WebAssembly of wire/assembly, which names the
 * algorithms. Data outside of the kernel's memory is copied in and out in chunks, which grow while all numbers have the common
 * form. Why it exists and what it saves: docs/decisions/004-floats-in-json.md and 006-assembly-script.md.
 */
import { FLOAT_KERNELS, SHARED_FLOAT_KERNELS } from "../gen/float-kernels.ts";
import { engine, FIRST_FREE_BYTE, type FloatMemory, type FloatRoutines, floatMemory } from "./float-memory.ts";

/** A chunk of text fits the L2 cache. */
const MAX_TEXT_BYTES: number = 128 * 1024;
/** Readable bytes behind a chunk: the reader loads vectors beyond the end of a number. */
const PADDING_BYTES = 64;
const WORD_BYTES = 8;
/** More than a chunk of text usually holds. */
const MAX_FLOATS = 8192;
const FLOAT_BYTES = 4;
const FLOATS_OFFSET: number = MAX_TEXT_BYTES + PADDING_BYTES + WORD_BYTES;
/** Memory that one kernel needs for itself, behind the tables that all kernels of the memory share. */
export const SCRATCH_BYTES: number = FLOATS_OFFSET + MAX_FLOATS * FLOAT_BYTES + WORD_BYTES;
const MIN_TEXT_BYTES = 1024;
const MIN_FLOATS = 64;
/** Reserved for each number; the longest with its comma takes 25. */
const NUMBER_BYTES = 32;
const MAX_WRITTEN_FLOATS: number = MAX_TEXT_BYTES / NUMBER_BYTES;

export class FloatKernel {
  readonly #routines: FloatRoutines;
  readonly #buffer: ArrayBufferLike;
  readonly #bytes: Uint8Array;
  readonly #scratchAt: number;
  #chunkBytes = MIN_TEXT_BYTES;
  #chunkFloats = MIN_FLOATS;
  /** Index where the last call stopped. */
  end = 0;

  /** `scratchAt`: address of SCRATCH_BYTES that nobody else uses. */
  constructor(routines: FloatRoutines, buffer: ArrayBufferLike, scratchAt: number) {
    this.#routines = routines;
    this.#buffer = buffer;
    this.#bytes = new Uint8Array(buffer);
    this.#scratchAt = scratchAt;
    routines.fillTables();
  }

  /**
   * Reads pairs of a comma and a number from `at` on, and stores up to `room` floats from `target[first]` on. It stops
   * at `end`, or before another form of number or an error. @returns the number of floats
   */
  read(bytes: Uint8Array, at: number, target: Float32Array, first: number, room: number): number {
    const isInPlace = bytes.buffer === this.#buffer;
    let count = 0;
    this.end = at;
    while (count < room) {
      const max = Math.min(room - count, MAX_FLOATS);
      const out = this.#aligned(this.#scratchAt + FLOATS_OFFSET, target.byteOffset + FLOAT_BYTES * (first + count));
      const [numRead, isCommon] = isInPlace ? this.#readInPlace(bytes, out, max) : this.#readCopy(bytes, out, max);
      target.set(new Float32Array(this.#buffer, out, numRead), first + count);
      count += numRead;
      if (!isCommon) break;
    }
    return count;
  }

  #readInPlace(bytes: Uint8Array, out: number, max: number): [numRead: number, isCommon: boolean] {
    const { byteOffset, length } = bytes;
    const numRead = this.#routines.readFloats(byteOffset + this.end, byteOffset + length, out, max);
    this.end = this.#routines.readEnd.value - byteOffset;
    return [numRead, numRead === max];
  }

  #readCopy(bytes: Uint8Array, out: number, max: number): [numRead: number, isCommon: boolean] {
    const numBytes = Math.min(this.#chunkBytes, bytes.length - this.end, max * NUMBER_BYTES);
    const at = this.#aligned(this.#scratchAt, bytes.byteOffset + this.end);
    this.#bytes.set(bytes.subarray(this.end, this.end + numBytes), at);
    this.#bytes.fill(0, at + numBytes, at + numBytes + PADDING_BYTES);
    const numRead = this.#routines.readFloats(at, at + numBytes, out, max);
    const used = this.#routines.readEnd.value - at;
    this.end += used;
    // A number that reaches beyond the chunk is read with the next one.
    const isCommon = numRead === max || (used > 0 && used > numBytes - 2 * NUMBER_BYTES);
    this.#chunkBytes = isCommon ? Math.min(this.#chunkBytes * 4, MAX_TEXT_BYTES) : MIN_TEXT_BYTES;
    return [numRead, isCommon];
  }

  /**
   * The first address from `at` on with the alignment of `address`: V8 copies shared memory by words only where both sides have
   * the same alignment.
   */
  #aligned(at: number, address: number): number {
    return at + ((address - at) & (WORD_BYTES - 1));
  }

  /**
   * Writes a comma and a number for each float from `from` to `to` of `view`. `target` must have `floatTextBytes()` from `at` on.
   * @returns the number of floats; `end` is the index behind the text
   */
  write(view: DataView, from: number, to: number, target: Uint8Array, at: number): number {
    const isInPlace = target.buffer === this.#buffer && view.buffer === this.#buffer;
    let count = 0;
    this.end = at;
    while (from + count < to) {
      const most = isInPlace ? to - from - count : this.#chunkFloats;
      const wanted = Math.min(most, to - from - count);
      const src = view.byteOffset + (from + count) * FLOAT_BYTES;
      const written = isInPlace
        ? this.#writeInPlace(src, wanted, target)
        : this.#writeCopy(new Uint8Array(view.buffer, src, wanted * FLOAT_BYTES), target);
      count += written;
      this.#chunkFloats = written === wanted ? Math.min(this.#chunkFloats * 4, MAX_WRITTEN_FLOATS) : MIN_FLOATS;
      if (written < wanted) break;
    }
    return count;
  }

  #writeInPlace(src: number, count: number, { byteOffset }: Uint8Array): number {
    const written = this.#routines.writeFloats(src, count, byteOffset + this.end);
    this.end = this.#routines.writeEnd.value - byteOffset;
    return written;
  }

  #writeCopy(floats: Uint8Array, target: Uint8Array): number {
    const src = this.#aligned(this.#scratchAt + FLOATS_OFFSET, floats.byteOffset);
    this.#bytes.set(floats, src);
    const at = this.#aligned(this.#scratchAt, target.byteOffset + this.end);
    const written = this.#routines.writeFloats(src, floats.length / FLOAT_BYTES, at);
    const textEnd = this.#routines.writeEnd.value;
    target.set(this.#bytes.subarray(at, textEnd), this.end);
    this.end += textEnd - at;
    return written;
  }
}

/** Bytes that `write()` needs for `count` floats. */
export function floatTextBytes(count: number): number {
  return count * NUMBER_BYTES;
}

/** Undefined without WebAssembly. */
function createFloatKernel(memory: FloatMemory | undefined, scratchAt: number): FloatKernel | undefined {
  if (engine === undefined || memory === undefined) return undefined;
  const { buffer } = memory;
  const binary = buffer instanceof ArrayBuffer ? FLOAT_KERNELS : SHARED_FLOAT_KERNELS;
  try {
    const { exports } = new engine.Instance(new engine.Module(binary), { env: { memory } });
    return new FloatKernel(exports, buffer, scratchAt);
  } catch {
    return undefined; // a content security policy may forbid it
  }
}

let kernel: FloatKernel | undefined;
let isCreated = false;

/** One for the thread: calls are synchronous. */
export function floatKernel(): FloatKernel | undefined {
  if (!isCreated) useFloatMemory(floatMemory(FIRST_FREE_BYTE + SCRATCH_BYTES, false), FIRST_FREE_BYTE);
  return kernel;
}

/** Moves the kernel of this thread to `memory`. `scratchAt`: address of SCRATCH_BYTES for it alone. */
export function useFloatMemory(memory: FloatMemory | undefined, scratchAt: number): void {
  isCreated = true;
  kernel = createFloatKernel(memory, scratchAt);
}
