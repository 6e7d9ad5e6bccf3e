/**
 * A pool of memory for large JSON bodies (RFC 8259): fresh memory for each body costs page faults and garbage collection. One
 * shared block, so that threads work on it in place. First fit, with free neighbours joined (Knuth, The Art of Computer
 * Programming, Volume 1, section 2.5; Knuth 1997). Knows no use of the memory.
 */

export interface Lease {
  readonly bytes: Uint8Array;
  /** Ends the lease; the bytes must not be used afterwards. Further calls do nothing. */
  readonly release: () => void;
}

interface Gap {
  readonly at: number;
  readonly end: number;
}

/** Leases begin at multiples of this. */
const PAGE_BYTES = 4096;

export class BufferPool {
  readonly buffer: ArrayBufferLike;
  /** Free ranges in the order of their addresses; a leased range lies between each two. */
  #gaps: readonly Gap[];

  /** Manages the bytes from `from` to `to` of `buffer`. */
  constructor(buffer: ArrayBufferLike, from: number, to: number) {
    this.buffer = buffer;
    this.#gaps = [{ at: Math.ceil(from / PAGE_BYTES) * PAGE_BYTES, end: to }];
  }

  /** The first free range that is large enough, with old contents; undefined if there is none. */
  lease(numBytes: number): Lease | undefined {
    const size = Math.ceil(numBytes / PAGE_BYTES) * PAGE_BYTES;
    const gap = this.#gaps.find(({ at, end }) => end - at >= size);
    if (gap === undefined) return undefined;
    const { at } = gap;
    this.#gaps = this.#gaps.flatMap((one) =>
      one !== gap ? [one] : one.end - at > size ? [{ at: at + size, end: one.end }] : [],
    );
    let isLeased = true;
    const release = (): void => {
      if (isLeased) this.#free({ at, end: at + size });
      isLeased = false;
    };
    return { bytes: new Uint8Array(this.buffer, at, numBytes), release };
  }

  #free({ at, end }: Gap): void {
    const before = this.#gaps.filter((gap) => gap.end < at);
    const behind = this.#gaps.filter((gap) => gap.at > end);
    const start = this.#gaps.find((gap) => gap.end === at)?.at ?? at;
    const stop = this.#gaps.find((gap) => gap.at === end)?.end ?? end;
    this.#gaps = [...before, { at: start, end: stop }, ...behind];
  }
}

/**
 * Copies by `fill()`, which is one memcpy at any alignment. `set()` and `copy()` copy single bytes into shared memory when the
 * alignments differ, five times as slow. @throws RangeError if the target is too small: other leases lie behind it
 */
export function copyInto(target: Buffer, at: number, source: Uint8Array): void {
  if (at + source.length > target.length) {
    throw new RangeError(`expected at most ${target.length - at} bytes, got ${source.length}`);
  }
  if (source.length === 0) return; // fill() throws for an empty source
  target.fill(source, at, at + source.length);
}

/** The same bytes as a Buffer. */
export function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
