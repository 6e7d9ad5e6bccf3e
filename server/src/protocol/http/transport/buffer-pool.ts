/**
 * Memory that is used again and again for large texts: what is made anew for each must be faulted in by the system, and makes
 * the engine collect garbage. One piece that threads share, so that they work on it in place. Knows nothing of what it is used for.
 */

export interface Loan {
  readonly bytes: Uint8Array;
  /** Gives it back; nobody may touch the bytes afterwards. Further calls do nothing. */
  readonly release: () => void;
}

interface Gap {
  readonly at: number;
  readonly end: number;
}

/** Loans begin at multiples of this. */
const STEP_BYTES = 4096;

export class LentMemory {
  readonly buffer: ArrayBufferLike;
  /** In the order of their addresses, with something lent between each two. */
  #gaps: readonly Gap[];

  /** Lends what lies between the two addresses. */
  constructor(buffer: ArrayBufferLike, from: number, to: number) {
    this.buffer = buffer;
    this.#gaps = [{ at: Math.ceil(from / STEP_BYTES) * STEP_BYTES, end: to }];
  }

  /** The first part that is free, which was used by others before; undefined when none is large enough. */
  lend(numBytes: number): Loan | undefined {
    const size = Math.ceil(numBytes / STEP_BYTES) * STEP_BYTES;
    const gap = this.#gaps.find(({ at, end }) => end - at >= size);
    if (gap === undefined) return undefined;
    const { at } = gap;
    this.#gaps = this.#gaps.flatMap((one) =>
      one !== gap ? [one] : one.end - at > size ? [{ at: at + size, end: one.end }] : [],
    );
    let isLent = true;
    const release = (): void => {
      if (isLent) this.#give({ at, end: at + size });
      isLent = false;
    };
    return { bytes: new Uint8Array(this.buffer, at, numBytes), release };
  }

  #give({ at, end }: Gap): void {
    const before = this.#gaps.filter((gap) => gap.end < at);
    const behind = this.#gaps.filter((gap) => gap.at > end);
    const start = this.#gaps.find((gap) => gap.end === at)?.at ?? at;
    const stop = this.#gaps.find((gap) => gap.at === end)?.end ?? end;
    this.#gaps = [...before, { at: start, end: stop }, ...behind];
  }
}

/**
 * By `fill()`, which is one copy of the system's however both sides lie: `set()` and `copy()` go byte by byte into shared
 * memory where the two lie unlike, and take five times as long.
 * @throws RangeError when there is no room for it: behind the target is what others have
 */
export function copyInto(target: Buffer, at: number, source: Uint8Array): void {
  if (at + source.length > target.length) {
    throw new RangeError(`expected at most ${target.length - at} bytes, got ${source.length}`);
  }
  if (source.length === 0) return; // fill() takes nothing for a mistake
  target.fill(source, at, at + source.length);
}

/** The same bytes, as Node has them. */
export function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
