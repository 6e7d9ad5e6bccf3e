/**
 * Cache blocks by number, with a count of holders each. It does not know what a block contains nor who holds it:
 * sequences and the prefix cache are holders like any other.
 */

export class BlockPool {
  readonly numBlocks: number;
  /** Holders per block; 0 = free. */
  readonly #holders: Int32Array;
  /** A stack: the blocks below `#numFree` are free. */
  readonly #free: Int32Array;
  #numFree: number;

  constructor(numBlocks: number) {
    this.numBlocks = numBlocks;
    this.#holders = new Int32Array(numBlocks);
    this.#free = new Int32Array(numBlocks);
    this.#numFree = numBlocks;
    for (let i = 0; i < numBlocks; i++) this.#free[i] = numBlocks - 1 - i;
  }

  get numFree(): number {
    return this.#numFree;
  }

  /** Takes a free block, held once. The caller has looked at `numFree`. */
  allocate(): number {
    if (this.#numFree === 0) throw new Error("block pool: allocate() without a free block");
    this.#numFree -= 1;
    const block = this.#free[this.#numFree] ?? -1;
    this.#holders[block] = 1;
    return block;
  }

  retain(block: number): void {
    this.#holders[block] = this.holders(block) + 1;
  }

  /** Gives one hold back and returns how many are left. */
  release(block: number): number {
    const left = this.holders(block) - 1;
    this.#holders[block] = left;
    if (left === 0) {
      this.#free[this.#numFree] = block;
      this.#numFree += 1;
    }
    return left;
  }

  /** Holders of a block in use; a free or foreign block is a broken invariant. */
  holders(block: number): number {
    const count = this.#holders[block] ?? 0;
    if (count <= 0) throw new Error(`block pool: block ${block} is not in use`);
    return count;
  }

  /** Holders of any block; 0 = free. */
  numHolders(block: number): number {
    return this.#holders[block] ?? 0;
  }

  /** Compares with the holds that the caller knows of: each list entry is one hold. @throws on any difference */
  checkIntegrity(holds: Iterable<number>): void {
    const expected = new Int32Array(this.numBlocks);
    for (const block of holds) expected[block] = (expected[block] ?? 0) + 1;
    for (let block = 0; block < this.numBlocks; block++) {
      if (expected[block] !== this.#holders[block]) {
        throw new Error(`block pool: block ${block} has ${this.#holders[block]} holders, expected ${expected[block]}`);
      }
    }
    const free = new Set(this.#free.subarray(0, this.#numFree));
    const numUsed = this.#holders.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0);
    if (free.size !== this.#numFree || numUsed + this.#numFree !== this.numBlocks) {
      throw new Error(`block pool: ${numUsed} used and ${this.#numFree} free of ${this.numBlocks} blocks`);
    }
    for (const block of free) {
      if (this.#holders[block] !== 0) throw new Error(`block pool: block ${block} is free and held`);
    }
  }
}
