/**
 * Memory that is used again and again for large texts: what is made anew for each must be faulted in by the system, and makes
 * the engine collect garbage. Shared memory, so that threads work on it in place. Knows nothing of what it is used for.
 */

export interface Loan {
  readonly bytes: Uint8Array<SharedArrayBuffer>;
  /** Gives it back; nobody may touch the bytes afterwards. Further calls do nothing. */
  readonly release: () => void;
}

/** Pieces are multiples of this, so that texts of about one size share them. */
const STEP_BYTES: number = 1024 * 1024;
const WORD_MASK = 7;

export class LentMemory {
  readonly #maxBytes: number;
  #size = 0;
  /** Smallest first. */
  readonly #free: SharedArrayBuffer[] = [];

  /** `maxBytes`: of all pieces together. They are kept: the engine is slow to free what it does not count. */
  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The smallest free piece that is large enough, a new one if there is none; undefined when it would be too much. */
  lend(numBytes: number): Loan | undefined {
    const buffer = this.#take(numBytes);
    if (buffer === undefined) return undefined;
    let isLent = true;
    const release = (): void => {
      if (isLent) this.#give(buffer);
      isLent = false;
    };
    return { bytes: new Uint8Array(buffer, 0, numBytes), release };
  }

  #take(numBytes: number): SharedArrayBuffer | undefined {
    const at = this.#free.findIndex(({ byteLength }) => byteLength >= numBytes);
    if (at >= 0) return this.#free.splice(at, 1)[0];
    const size = Math.ceil(numBytes / STEP_BYTES) * STEP_BYTES;
    if (this.#size + size > this.#maxBytes) return undefined;
    this.#size += size;
    return new SharedArrayBuffer(size);
  }

  #give(buffer: SharedArrayBuffer): void {
    const at = this.#free.findIndex(({ byteLength }) => byteLength >= buffer.byteLength);
    this.#free.splice(at < 0 ? this.#free.length : at, 0, buffer);
  }
}

/** Shared memory is copied word by word where both sides lie alike, else byte by byte: then this is twice as fast. */
export function copyToShared(target: Uint8Array, at: number, source: Uint8Array): void {
  if (((target.byteOffset + at) & WORD_MASK) === (source.byteOffset & WORD_MASK)) {
    target.set(source, at);
    return;
  }
  const from = new DataView(source.buffer, source.byteOffset, source.byteLength);
  const to = new DataView(target.buffer, target.byteOffset + at, source.byteLength);
  const wholeBytes = source.length & ~WORD_MASK;
  for (let i = 0; i < wholeBytes; i += WORD_MASK + 1) {
    to.setInt32(i, from.getInt32(i, true), true);
    to.setInt32(i + 4, from.getInt32(i + 4, true), true);
  }
  for (let i = wholeBytes; i < source.length; i++) target[at + i] = source[i] ?? 0;
}
