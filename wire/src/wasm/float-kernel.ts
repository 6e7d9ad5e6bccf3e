/**
 * The kernels for arrays of floats and the memory that they work in. What lies elsewhere is copied in and out by the piece: small
 * pieces after something unusual, larger ones while all is as usual. Undefined where there is no WebAssembly.
 */
import { assemble } from "./assembler.ts";
import { engine, type FloatMemory, type FloatRoutines, floatMemory, PAGE_BYTES } from "./float-memory.ts";
import { floatReader } from "./float-reader.ts";
import { fillTables, TABLES } from "./float-tables.ts";
import { floatWriter } from "./float-writer.ts";

/** Pieces that stay in the second cache of a processor. */
const MAX_TEXT_BYTES: number = 128 * 1024;
/** Behind a piece, so that a number can be looked at anywhere in it. */
const PADDING_BYTES = 64;
const WORD_BYTES = 8;
/** More than a piece of text holds as a rule. */
const MAX_FLOATS = 8192;
const FLOAT_BYTES = 4;
const FLOATS_OFFSET: number = MAX_TEXT_BYTES + PADDING_BYTES + WORD_BYTES;
/** What one kernel needs of a memory for itself, behind the tables that all share. */
export const SCRATCH_BYTES: number = FLOATS_OFFSET + MAX_FLOATS * FLOAT_BYTES + WORD_BYTES;
const MIN_TEXT_BYTES = 1024;
const MIN_FLOATS = 64;
/** Room for a number at its place, more than it may take. */
const NUMBER_BYTES = 32;
const MAX_WRITTEN_FLOATS: number = MAX_TEXT_BYTES / NUMBER_BYTES;

export class FloatKernel {
  readonly #routines: FloatRoutines;
  readonly #buffer: ArrayBufferLike;
  readonly #bytes: Uint8Array;
  readonly #scratchAt: number;
  #textBytes = MIN_TEXT_BYTES;
  #numFloats = MIN_FLOATS;
  /** Where the last reading or writing stopped. */
  end = 0;

  /** `scratchAt`: where memory begins that nobody else uses. */
  constructor(routines: FloatRoutines, buffer: ArrayBufferLike, scratchAt: number) {
    this.#routines = routines;
    this.#buffer = buffer;
    this.#bytes = new Uint8Array(buffer);
    this.#scratchAt = scratchAt;
    fillTables(buffer);
  }

  /**
   * Takes a comma and a number again and again from `at` on, and stores up to `room` floats from `target[first]` on.
   * @returns how many; `end` says where it stopped, with nothing said about what is there
   */
  read(bytes: Uint8Array, at: number, target: Float32Array, first: number, room: number): number {
    const isInPlace = bytes.buffer === this.#buffer;
    let count = 0;
    this.end = at;
    while (count < room) {
      const max = Math.min(room - count, MAX_FLOATS);
      const out = this.#alike(this.#scratchAt + FLOATS_OFFSET, target.byteOffset + FLOAT_BYTES * (first + count));
      const [taken, isUsual] = isInPlace ? this.#readHere(bytes, out, max) : this.#readPiece(bytes, out, max);
      target.set(new Float32Array(this.#buffer, out, taken), first + count);
      count += taken;
      if (!isUsual) break;
    }
    return count;
  }

  #readHere(bytes: Uint8Array, out: number, max: number): [taken: number, isUsual: boolean] {
    const { byteOffset, length } = bytes;
    const taken = this.#routines.readFloats(byteOffset + this.end, byteOffset + length, out, max);
    this.end = this.#routines.register.value - byteOffset;
    return [taken, taken === max];
  }

  #readPiece(bytes: Uint8Array, out: number, max: number): [taken: number, isUsual: boolean] {
    const numBytes = Math.min(this.#textBytes, bytes.length - this.end, max * NUMBER_BYTES);
    const at = this.#alike(this.#scratchAt, bytes.byteOffset + this.end);
    this.#bytes.set(bytes.subarray(this.end, this.end + numBytes), at);
    this.#bytes.fill(0, at + numBytes, at + numBytes + PADDING_BYTES);
    const taken = this.#routines.readFloats(at, at + numBytes, out, max);
    const used = this.#routines.register.value - at;
    this.end += used;
    // A number that reaches beyond the piece is read with the next one.
    const isUsual = taken === max || (used > 0 && used > numBytes - 2 * NUMBER_BYTES);
    this.#textBytes = isUsual ? Math.min(this.#textBytes * 4, MAX_TEXT_BYTES) : MIN_TEXT_BYTES;
    return [taken, isUsual];
  }

  /** From `at` on. Shared memory is copied word by word where both sides lie alike, else byte by byte. */
  #alike(at: number, address: number): number {
    return at + ((address - at) & (WORD_BYTES - 1));
  }

  /**
   * Writes a comma and a number for each float from `from` to `to` of `view`, at `target[at]`, where there is room.
   * @returns how many; `end` says where the text ends
   */
  write(view: DataView, from: number, to: number, target: Uint8Array, at: number): number {
    const isInPlace = target.buffer === this.#buffer && view.buffer === this.#buffer;
    let count = 0;
    this.end = at;
    while (from + count < to) {
      const most = isInPlace ? to - from - count : this.#numFloats;
      const wanted = Math.min(most, to - from - count);
      const src = view.byteOffset + (from + count) * FLOAT_BYTES;
      const written = isInPlace
        ? this.#writeHere(src, wanted, target)
        : this.#writePiece(new Uint8Array(view.buffer, src, wanted * FLOAT_BYTES), target);
      count += written;
      this.#numFloats = written === wanted ? Math.min(this.#numFloats * 4, MAX_WRITTEN_FLOATS) : MIN_FLOATS;
      if (written < wanted) break;
    }
    return count;
  }

  #writeHere(src: number, count: number, { byteOffset }: Uint8Array): number {
    const written = this.#routines.writeFloats(src, count, byteOffset + this.end);
    this.end = this.#routines.register.value - byteOffset;
    return written;
  }

  #writePiece(floats: Uint8Array, target: Uint8Array): number {
    const src = this.#alike(this.#scratchAt + FLOATS_OFFSET, floats.byteOffset);
    this.#bytes.set(floats, src);
    const at = this.#alike(this.#scratchAt, target.byteOffset + this.end);
    const written = this.#routines.writeFloats(src, floats.length / FLOAT_BYTES, at);
    const textEnd = this.#routines.register.value;
    target.set(this.#bytes.subarray(at, textEnd), this.end);
    this.end += textEnd - at;
    return written;
  }
}

/** The most characters that `write` needs room for. */
export function floatTextBytes(count: number): number {
  return count * NUMBER_BYTES;
}

/** Undefined where there is no engine for it. */
function createFloatKernel(memory: FloatMemory | undefined, scratchAt: number): FloatKernel | undefined {
  if (engine === undefined || memory === undefined) return undefined;
  const { buffer } = memory;
  const limits = { numPages: buffer.byteLength / PAGE_BYTES, isShared: !(buffer instanceof ArrayBuffer) };
  try {
    const module = new engine.Module(assemble([floatReader(), floatWriter()], limits));
    return new FloatKernel(new engine.Instance(module, { host: { memory } }).exports, buffer, scratchAt);
  } catch {
    return undefined; // a page may forbid it
  }
}

/** Fewer are not worth the way. */
const MIN_ARRAY = 256;
/** A use that did less than this... */
const POOR_YIELD = 16;
/** ...makes the next so many be done without. */
const NUM_SKIPPED = 64;

/** Decides where the kernel is of use: in long arrays whose numbers are mostly as usual. */
export class FloatKernelUse {
  #skip = 0;

  /** Undefined: do without it, once. */
  next(numFloats: number): FloatKernel | undefined {
    if (numFloats < MIN_ARRAY) return undefined;
    if (this.#skip === 0) return floatKernel();
    this.#skip -= 1;
    return undefined;
  }

  /** What it did of what it was given. */
  used(done: number, numFloats: number): void {
    if (done < POOR_YIELD && done < numFloats) this.#skip = NUM_SKIPPED;
  }
}

let kernel: FloatKernel | undefined;
let isCreated = false;

/** One for all: it runs to its end whenever it is called. */
export function floatKernel(): FloatKernel | undefined {
  if (!isCreated) useFloatMemory(floatMemory(TABLES.end + SCRATCH_BYTES, false), TABLES.end);
  return kernel;
}

/** The kernel of this thread works in that memory from now on. `scratchAt`: where a part begins that is for it alone. */
export function useFloatMemory(memory: FloatMemory | undefined, scratchAt: number): void {
  isCreated = true;
  kernel = createFloatKernel(memory, scratchAt);
}
