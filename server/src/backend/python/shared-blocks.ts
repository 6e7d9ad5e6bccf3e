/**
 * Blocks of memory shared with a process: large tensors are copied into one, and messages carry their offset. Sizes are
 * powers of two, so that blocks can be reused. Without a memory file there are no blocks, and data travels in messages.
 */
import { MemoryFile, type MemoryRange } from "../../native/memory-file.ts";

/** Smaller data travels in its message: its copies cost less than the bookkeeping. */
export const SHARE_BYTES: number = 32 * 1024;
/** Free blocks that keep their memory; what is free beyond goes back to the system. */
const KEEP_BYTES: number = 64 * 1024 * 1024;

/** Location of a copy of the data. */
export interface SharedPlace {
  readonly offset: number;
  /** Size of the whole block. */
  readonly capacity: number;
}

export class SharedBlocks implements Disposable {
  readonly #file: MemoryFile | undefined;
  readonly #used = new Map<number, MemoryRange>();
  /** By size. */
  readonly #free = new Map<number, MemoryRange[]>();
  #keptBytes = 0;
  #isClosed = false;

  constructor(name: string) {
    this.#file = openFile(name);
  }

  /** For the child to inherit. */
  get descriptor(): number | undefined {
    return this.#file?.descriptor;
  }

  /** Blocks that the other side still looks at. */
  get numUsed(): number {
    return this.#used.size;
  }

  /** Copies data into a block; undefined when it is small, or there is no memory for it. */
  place(data: Uint8Array): SharedPlace | undefined {
    if (data.length < SHARE_BYTES || this.#isClosed || this.#file === undefined) return undefined;
    const block = this.#take(this.#file, 2 ** Math.ceil(Math.log2(data.length)));
    if (block === undefined) return undefined;
    block.bytes.set(data);
    this.#used.set(block.offset, block);
    return { offset: block.offset, capacity: block.bytes.length };
  }

  /** The other side looks at a block no more. @throws RangeError when it has none there */
  release(offset: number): void {
    const block = this.#used.get(offset);
    if (block === undefined) throw new RangeError(`no block at ${offset} is in use`);
    this.#used.delete(offset);
    const size = block.bytes.length;
    if (this.#keptBytes + size > KEEP_BYTES) this.#file?.discard(block);
    else this.#keptBytes += size;
    const same = this.#free.get(size);
    if (same === undefined) this.#free.set(size, [block]);
    else same.push(block);
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#used.clear();
    this.#free.clear();
    this.#file?.[Symbol.dispose]();
  }

  #take(file: MemoryFile, size: number): MemoryRange | undefined {
    const known = this.#free.get(size)?.pop();
    if (known !== undefined) {
      this.#keptBytes = Math.max(0, this.#keptBytes - size);
      return known;
    }
    try {
      return file.grow(size);
    } catch {
      return undefined;
    }
  }
}

function openFile(name: string): MemoryFile | undefined {
  try {
    return new MemoryFile(name);
  } catch {
    return undefined;
  }
}
