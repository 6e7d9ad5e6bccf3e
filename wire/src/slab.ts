/**
 * Bump allocation for tensors while they are read. Small tensors share an arena: a typed array with its own buffer
 * costs more than reading its 16 numbers. Large ones get their own. An arena lives as long as the last tensor in it,
 * as in D. Hanson, "Fast Allocation and Deallocation of Memory Based on Object Lifetimes" (Hanson 1990).
 */

const SLAB_BYTES = 65_536;
/** Larger tensors do not keep a whole slab alive for others. */
const MAX_SHARED_BYTES = 8192;

/** One buffer seen as every element type; `base` is where the current tensor begins, a multiple of 8. */
export class Slab {
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

export class SlabAllocator {
  #shared: Slab = new Slab(SLAB_BYTES);

  /** A slab with room for `numBytes` from its `base` on. Nothing is taken before `commit()`. */
  reserve(numBytes: number): Slab {
    if (numBytes > MAX_SHARED_BYTES) return new Slab(numBytes);
    if (this.#shared.base + numBytes > SLAB_BYTES) this.#shared = new Slab(SLAB_BYTES);
    return this.#shared;
  }

  /** Takes the first `numBytes` of what was reserved. */
  commit(slab: Slab, numBytes: number): Uint8Array {
    const start = slab.base;
    slab.base = Math.ceil((start + numBytes) / 8) * 8;
    return slab.u8.subarray(start, start + numBytes);
  }
}
