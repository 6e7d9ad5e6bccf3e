/**
 * Full cache blocks of sequences past and present, found again by their tokens. A block is known by the block before it
 * and its own tokens, so a chain of blocks is a prefix. The cache is a holder of each block it knows; a block that only
 * the cache holds is idle and can be evicted. It knows no sequences, only their tokens and block numbers.
 *
 * Idle blocks stand in one list by the time of their last release. A sequence holds whole chains and releases them from
 * the end, so a block always stands before its parent in that list: the head of the list is a leaf.
 */
import type { BlockPool } from "./block-pool.ts";

const NONE = -1;
/** Chains of roots: the hash of a salt starts one, and no block is the parent. */
const ROOT = -2;

export class PrefixCache {
  readonly #pool: BlockPool;
  readonly #blockSize: number;
  readonly #enabled: boolean;
  /** Hash of a chain to its last block. Another chain with that hash is a miss: tokens are compared. */
  readonly #byHash = new Map<number, number>();
  readonly #hashes: Float64Array;
  /** Parent block, ROOT for the first of a chain, NONE for a block that is not cached. */
  readonly #parents: Int32Array;
  readonly #children: Int32Array;
  readonly #tokens: Int32Array;
  /** Salt of each first block. */
  readonly #salts: (string | undefined)[];
  /** The idle list; index `numBlocks` is its sentinel, so the list is a ring. */
  readonly #next: Int32Array;
  readonly #previous: Int32Array;
  #numIdle = 0;

  constructor(pool: BlockPool, blockSize: number, enabled: boolean) {
    const { numBlocks } = pool;
    this.#pool = pool;
    this.#blockSize = blockSize;
    this.#enabled = enabled;
    this.#hashes = new Float64Array(numBlocks);
    this.#parents = new Int32Array(numBlocks).fill(NONE);
    this.#children = new Int32Array(numBlocks);
    this.#tokens = new Int32Array(enabled ? numBlocks * blockSize : 0);
    this.#salts = new Array<string | undefined>(numBlocks).fill(undefined);
    this.#next = new Int32Array(numBlocks + 1).fill(NONE);
    this.#previous = new Int32Array(numBlocks + 1).fill(NONE);
    this.#next[numBlocks] = numBlocks;
    this.#previous[numBlocks] = numBlocks;
  }

  /** Blocks that `allocate()` can still give: free ones and idle ones. */
  get numAvailable(): number {
    return this.#pool.numFree + this.#numIdle;
  }

  /** Takes a block, evicting the least recently used leaf when none is free. */
  allocate(): number {
    if (this.#pool.numFree === 0) this.#evict();
    return this.#pool.allocate();
  }

  /**
   * Finds the longest cached prefix of `tokens[0, limit)`, writes its blocks to `table` and returns their number.
   * Nothing is held yet: call `hold` before anything else happens to the cache.
   */
  match(tokens: Int32Array, limit: number, salt: string, table: Int32Array): number {
    if (!this.#enabled) return 0;
    const numFull = Math.floor(limit / this.#blockSize);
    let parent = ROOT;
    let hash = hashText(salt);
    let count = 0;
    while (count < numFull) {
      const start = count * this.#blockSize;
      hash = hashBlock(hash, tokens, start, this.#blockSize);
      const block = this.#find(hash, parent, tokens, start, salt);
      if (block === NONE) break;
      table[count] = block;
      parent = block;
      count += 1;
    }
    return count;
  }

  /** How many of these matched blocks are idle now, and would not be available once held. */
  countIdle(table: Int32Array, count: number): number {
    let idle = 0;
    for (let i = 0; i < count; i++) if (this.#isIdle(table[i] ?? NONE)) idle += 1;
    return idle;
  }

  hold(table: Int32Array, count: number): void {
    for (let i = 0; i < count; i++) {
      const block = table[i] ?? NONE;
      if (this.#isIdle(block)) this.#unlink(block);
      this.#pool.retain(block);
    }
  }

  /**
   * Makes the full block `index` of a chain known. When the same chain is known already, the caller's block is given
   * back and the known one takes its place in `table`: two sequences that computed the same prefix end up sharing it.
   */
  commit(tokens: Int32Array, index: number, salt: string, table: Int32Array): void {
    if (!this.#enabled) return;
    const parent = index === 0 ? ROOT : (table[index - 1] ?? NONE);
    const start = index * this.#blockSize;
    const seed = index === 0 ? hashText(salt) : (this.#hashes[parent] ?? 0);
    const block = table[index] ?? NONE;
    if (parent !== ROOT && this.#parents[parent] === NONE) return; // its parent lost a hash collision: the chain ends there
    const hash = hashBlock(seed, tokens, start, this.#blockSize);
    const known = this.#find(hash, parent, tokens, start, salt);
    if (known !== NONE) {
      table[index] = known;
      this.hold(table.subarray(index), 1);
      this.#pool.release(block);
    } else if (!this.#byHash.has(hash)) {
      this.#add(block, hash, parent, tokens.subarray(start, start + this.#blockSize), salt);
    }
  }

  /** Gives a sequence's blocks back, last one first. */
  release(table: Int32Array, count: number): void {
    for (let i = count - 1; i >= 0; i--) {
      const block = table[i] ?? NONE;
      const left = this.#pool.release(block);
      if (left === 1 && this.#parents[block] !== NONE) this.#linkNewest(block);
    }
  }

  /** Every hold of the cache, for the pool's check; checks itself on the way. */
  checkIntegrity(): number[] {
    const holds: number[] = [];
    const children = new Int32Array(this.#children.length);
    for (let block = 0; block < this.#parents.length; block++) {
      const parent = this.#parents[block] ?? NONE;
      if (parent === NONE) continue;
      holds.push(block);
      if (parent >= 0) children[parent] = (children[parent] ?? 0) + 1;
      const idle = this.#next[block] !== NONE;
      if (idle !== (this.#pool.holders(block) === 1)) throw new Error(`prefix cache: block ${block} in the wrong list`);
    }
    if (holds.length !== this.#byHash.size) throw new Error("prefix cache: hash map and blocks differ in number");
    if (children.some((count, block) => count !== this.#children[block])) throw new Error("prefix cache: child counts");
    let idle = 0;
    for (let b = this.#next[this.#pool.numBlocks] ?? NONE; b !== this.#pool.numBlocks; b = this.#next[b] ?? NONE)
      idle++;
    if (idle !== this.#numIdle) throw new Error(`prefix cache: ${idle} blocks are idle, expected ${this.#numIdle}`);
    return holds;
  }

  #find(hash: number, parent: number, tokens: Int32Array, start: number, salt: string): number {
    const block = this.#byHash.get(hash);
    if (block === undefined || this.#parents[block] !== parent) return NONE;
    if (parent === ROOT && this.#salts[block] !== salt) return NONE;
    const own = block * this.#blockSize;
    for (let i = 0; i < this.#blockSize; i++) if (this.#tokens[own + i] !== tokens[start + i]) return NONE;
    return block;
  }

  #add(block: number, hash: number, parent: number, tokens: Int32Array, salt: string): void {
    this.#byHash.set(hash, block);
    this.#hashes[block] = hash;
    this.#parents[block] = parent;
    this.#tokens.set(tokens, block * this.#blockSize);
    if (parent === ROOT) this.#salts[block] = salt;
    else this.#children[parent] = (this.#children[parent] ?? 0) + 1;
    this.#pool.retain(block);
  }

  #evict(): void {
    const block = this.#next[this.#pool.numBlocks] ?? NONE;
    if (block === this.#pool.numBlocks) throw new Error("prefix cache: no block to evict");
    if (this.#children[block] !== 0) throw new Error(`prefix cache: idle block ${block} is no leaf`);
    this.#unlink(block);
    this.#byHash.delete(this.#hashes[block] ?? 0);
    const parent = this.#parents[block] ?? NONE;
    if (parent >= 0) this.#children[parent] = (this.#children[parent] ?? 0) - 1;
    this.#parents[block] = NONE;
    this.#salts[block] = undefined;
    this.#pool.release(block);
  }

  #isIdle(block: number): boolean {
    return (this.#next[block] ?? NONE) !== NONE;
  }

  #linkNewest(block: number): void {
    const sentinel = this.#pool.numBlocks;
    const last = this.#previous[sentinel] ?? sentinel;
    this.#next[last] = block;
    this.#previous[block] = last;
    this.#next[block] = sentinel;
    this.#previous[sentinel] = block;
    this.#numIdle += 1;
  }

  #unlink(block: number): void {
    const next = this.#next[block] ?? NONE;
    const previous = this.#previous[block] ?? NONE;
    this.#next[previous] = next;
    this.#previous[next] = previous;
    this.#next[block] = NONE;
    this.#previous[block] = NONE;
    this.#numIdle -= 1;
  }
}

/** 52 bits from two rounds of multiply-and-shift: enough that collisions, which cost a miss, do not matter. */
function hashBlock(seed: number, tokens: Int32Array, start: number, count: number): number {
  let a = seed | 0;
  let b = Math.floor(seed / 4_294_967_296) | 0;
  for (let i = start; i < start + count; i++) {
    const token = tokens[i] ?? 0;
    a = Math.imul(a ^ token, 0x85ebca6b);
    a ^= a >>> 15;
    b = Math.imul(b + token, 0xc2b2ae35) ^ (a >>> 7);
    b ^= b >>> 13;
  }
  return (b & 0xfffff) * 4_294_967_296 + (a >>> 0);
}

function hashText(text: string): number {
  let a = 0x2545f491;
  for (let i = 0; i < text.length; i++) a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
  return a >>> 0;
}
