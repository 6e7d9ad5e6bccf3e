/**
 * Bump allocation for tensors while they are read. Small tensors share an arena: a typed array with its own buffer
 * costs more than reading its 16 numbers. Large ones get their own. An arena lives as long as the last tensor in it,
 * as in D. Hanson, "Fast Allocation and Deallocation of Memory Based on Object Lifetimes" (Hanson 1990).
 */

const ARENA_BYTES = 65_536;
/** Larger tensors get their own arena, so that they keep no shared one alive. */
const MAX_SHARED_BYTES = 8192;

/** One buffer as every element type. `base`: index of the first byte of the current tensor, a multiple of 8. */
export class Arena {
  base = 0;
  readonly u8: Uint8Array;
  readonly i8: Int8Array;
  readonly u16: Uint16Array;
  readonly i16: Int16Array;
  readonly u32: Uint32Array;
  readonly i32: Int32Array;
  readonly f32: Float32Array;
  readonly f64: Float64Array;

  constructor(numBytes: number) {
    const buffer = new ArrayBuffer(Math.ceil(numBytes / 8) * 8);
    this.u8 = new Uint8Array(buffer);
    this.i8 = new Int8Array(buffer);
    this.u16 = new Uint16Array(buffer);
    this.i16 = new Int16Array(buffer);
    this.u32 = new Uint32Array(buffer);
    this.i32 = new Int32Array(buffer);
    this.f32 = new Float32Array(buffer);
    this.f64 = new Float64Array(buffer);
  }
}

export class ArenaAllocator {
  #shared: Arena = new Arena(ARENA_BYTES);

  /** An arena with room for `numBytes` from its `base` on. `commit()` allocates them. */
  reserve(numBytes: number): Arena {
    if (numBytes > MAX_SHARED_BYTES) return new Arena(numBytes);
    if (this.#shared.base + numBytes > ARENA_BYTES) this.#shared = new Arena(ARENA_BYTES);
    return this.#shared;
  }

  /** Allocates the first `numBytes` of the reservation. */
  commit(arena: Arena, numBytes: number): Uint8Array {
    const start = arena.base;
    arena.base = Math.ceil((start + numBytes) / 8) * 8;
    return arena.u8.subarray(start, start + numBytes);
  }
}
