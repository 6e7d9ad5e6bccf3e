/**
 * The kernels for arrays of floats and the memory that they share with JavaScript, which copies in and out by the piece: small
 * pieces after something unusual, larger ones while all is as usual. Undefined where there is no WebAssembly.
 */
import { assemble } from "./assembler.ts";
import { floatReader } from "./float-reader.ts";
import { fillTables, TABLES } from "./float-tables.ts";
import { floatWriter } from "./float-writer.ts";

/** What is used of the engine; the libraries of types that know it belong to browsers. */
interface Engine {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: Exports };
}

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  /** What a function leaves behind. */
  readonly register: { readonly value: number };
  readFloats(at: number, end: number, out: number, max: number): number;
  writeFloats(src: number, count: number, dst: number): number;
}

const TEXT_AT: number = TABLES.end;
/** Pieces that stay in the second cache of a processor. */
const MAX_TEXT_BYTES: number = 128 * 1024;
/** Behind the text, so that 32 bytes can be read anywhere in it. */
const PADDING_BYTES = 64;
const WORD_BYTES = 8;
const FLOATS_AT: number = TEXT_AT + MAX_TEXT_BYTES + PADDING_BYTES + WORD_BYTES;
/** More than a piece of text holds as a rule. */
const MAX_FLOATS = 8192;
const FLOAT_BYTES = 4;
const PAGE_BYTES = 65_536;
const NUM_PAGES: number = Math.ceil((FLOATS_AT + MAX_FLOATS * FLOAT_BYTES) / PAGE_BYTES);
const MIN_TEXT_BYTES = 1024;
const MIN_FLOATS = 64;
/** Room for a number at its place, more than it may take. */
const NUMBER_BYTES = 32;
const MAX_WRITTEN_FLOATS: number = MAX_TEXT_BYTES / NUMBER_BYTES;

export class FloatKernel {
  readonly #exports: Exports;
  readonly #bytes: Uint8Array;
  readonly #floats: Float32Array;
  #textAt = TEXT_AT;
  #textBytes = MIN_TEXT_BYTES;
  #numFloats = MIN_FLOATS;
  /** Where the last reading or writing stopped. */
  end = 0;

  constructor(exports: Exports) {
    this.#exports = exports;
    const { buffer } = exports.memory;
    this.#bytes = new Uint8Array(buffer);
    this.#floats = new Float32Array(buffer, FLOATS_AT, MAX_FLOATS);
    fillTables(buffer);
  }

  /**
   * Takes a comma and a number again and again from `at` on, and stores up to `room` floats from `target[first]` on.
   * @returns how many; `end` says where it stopped, with nothing said about what is there
   */
  read(bytes: Uint8Array, at: number, target: Float32Array, first: number, room: number): number {
    let count = 0;
    this.end = at;
    while (count < room) {
      const max = Math.min(room - count, MAX_FLOATS);
      const numBytes = Math.min(this.#textBytes, bytes.length - this.end, max * NUMBER_BYTES);
      const taken = this.#readPiece(bytes.subarray(this.end, this.end + numBytes), max);
      target.set(this.#floats.subarray(0, taken), first + count);
      count += taken;
      const used = this.#exports.register.value - this.#textAt;
      this.end += used;
      // A number that reaches beyond the piece is read with the next one.
      const isUsual = taken === max || (used > 0 && used > numBytes - 2 * NUMBER_BYTES);
      this.#textBytes = isUsual ? Math.min(this.#textBytes * 4, MAX_TEXT_BYTES) : MIN_TEXT_BYTES;
      if (!isUsual) break;
    }
    return count;
  }

  #readPiece(text: Uint8Array, max: number): number {
    this.#alignTo(text.byteOffset);
    const at = this.#textAt;
    this.#bytes.set(text, at);
    this.#bytes.fill(0, at + text.length, at + text.length + PADDING_BYTES);
    return this.#exports.readFloats(at, at + text.length, FLOATS_AT, max);
  }

  /** Shared memory is copied word by word where both sides lie alike, else byte by byte. */
  #alignTo(address: number): void {
    this.#textAt = TEXT_AT + (address & (WORD_BYTES - 1));
  }

  /**
   * Writes a comma and a number for each float from `from` to `to` of `view`, at `target[at]`, where there is room.
   * @returns how many; `end` says where the text ends
   */
  write(view: DataView, from: number, to: number, target: Uint8Array, at: number): number {
    let count = 0;
    this.end = at;
    while (from + count < to) {
      const wanted = Math.min(this.#numFloats, to - from - count);
      this.#alignTo(target.byteOffset + this.end);
      const written = this.#writePiece(view, from + count, wanted);
      target.set(this.#bytes.subarray(this.#textAt, this.#exports.register.value), this.end);
      this.end += this.#exports.register.value - this.#textAt;
      count += written;
      this.#numFloats = written === wanted ? Math.min(this.#numFloats * 4, MAX_WRITTEN_FLOATS) : MIN_FLOATS;
      if (written < wanted) break;
    }
    return count;
  }

  #writePiece(view: DataView, from: number, count: number): number {
    const start = view.byteOffset + from * FLOAT_BYTES;
    this.#bytes.set(new Uint8Array(view.buffer, start, count * FLOAT_BYTES), FLOATS_AT);
    return this.#exports.writeFloats(FLOATS_AT, count, this.#textAt);
  }
}

/** The most characters that `write` needs room for. */
export function floatTextBytes(count: number): number {
  return count * NUMBER_BYTES;
}

function create(): FloatKernel | undefined {
  const engine = (globalThis as { readonly WebAssembly?: Engine }).WebAssembly;
  if (engine === undefined) return undefined;
  try {
    const module = new engine.Module(assemble([floatReader(), floatWriter()], NUM_PAGES));
    return new FloatKernel(new engine.Instance(module).exports);
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
  if (!isCreated) {
    isCreated = true;
    kernel = create();
  }
  return kernel;
}
