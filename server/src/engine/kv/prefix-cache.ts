/**
 * Full cache blocks of past and present sequences, found by their tokens (a radix tree of block-sized edges, as in
 * SGLang's RadixAttention, Zheng et al. 2023). The cache holds each block that it knows. A block without another holder
 * is idle and can be evicted, to the host KV cache if there is one; such blocks are copied back before use. It knows
 * tokens and block numbers, no sequences. It copies nothing itself: `move` reports the copies in order.
 *
 *   block numbers:  [ device: attention reads these | host: copied to and from )
 *                   0                               pool.numBlocks             + numHostBlocks
 */
import { BlockPool } from "./block-pool.ts";
import { type ChainSource, ChainTable, NO_LINK, ROOT } from "./chain-table.ts";
import { EvictionQueue } from "./eviction-queue.ts";
import { LinkWorth } from "./link-worth.ts";
import { blockRetention, type Retention } from "./retention.ts";
import { firstBlockSeen, type WindowRules } from "./window-blocks.ts";

export interface PrefixCacheOptions {
  readonly pool: BlockPool;
  readonly blockSize: number;
  readonly isEnabled: boolean;
  /** Blocks of the host KV cache; 0 = none. */
  readonly numHostBlocks: number;
  /** A block whose content is to be copied before the next step, in the order of the calls. */
  readonly move: (from: number, to: number) => void;
  /** A link that is known no more. */
  readonly onForget?: ((link: number) => void) | undefined;
}

/** The part of a sequence that the cache reads. */
export interface PrefixSource extends ChainSource {
  readonly promptLength: number;
  readonly request: { readonly cacheSalt: string; readonly retention?: Retention | undefined };
}

/** The longest known prefix of a sequence. */
export interface PrefixMatch {
  /** Blocks of it. */
  readonly count: number;
  /** The first of them that the sequence still looks at: those before it are not held. */
  readonly first: number;
  /** Blocks that become unavailable by taking the match: idle ones, and new ones for blocks on the host. */
  readonly numTaken: number;
}

const NO_MATCH: PrefixMatch = Object.freeze({ count: 0, first: 0, numTaken: 0 });

export class PrefixCache {
  readonly #pool: BlockPool;
  readonly #host: BlockPool;
  readonly #numBlocks: number;
  readonly #blockSize: number;
  readonly #isEnabled: boolean;
  readonly #move: PrefixCacheOptions["move"];
  readonly #onForget: PrefixCacheOptions["onForget"];
  readonly #chains: ChainTable;
  /** Block of each link, and link of each block of device and host. */
  readonly #blocks: Int32Array;
  readonly #links: Int32Array;
  /** Children of each link on the device; they are evicted before their parent. */
  readonly #numOnDevice: Int32Array;
  readonly #worth: LinkWorth;
  /** Idle device links without children on the device, and host links without children. */
  readonly #idle: EvictionQueue;
  readonly #hostLeaves: EvictionQueue;
  #numIdle = 0;
  /** Links of the last match, and the index of the first that is taken. Host links among them are locked meanwhile. */
  #matched: number[] = [];
  #firstMatched = 0;
  readonly #locked = new Set<number>();
  #numOffloaded = 0;
  #numOnboarded = 0;

  constructor({ pool, blockSize, isEnabled, numHostBlocks, move, onForget }: PrefixCacheOptions) {
    const numLinks = isEnabled ? pool.numBlocks + numHostBlocks : 0;
    this.#pool = pool;
    this.#host = new BlockPool(isEnabled ? numHostBlocks : 0);
    this.#numBlocks = pool.numBlocks;
    this.#blockSize = blockSize;
    this.#isEnabled = isEnabled;
    this.#move = move;
    this.#onForget = onForget;
    this.#chains = new ChainTable(numLinks, blockSize);
    this.#blocks = new Int32Array(numLinks);
    this.#links = new Int32Array(pool.numBlocks + numHostBlocks).fill(NO_LINK);
    this.#numOnDevice = new Int32Array(numLinks);
    this.#worth = new LinkWorth(numLinks);
    this.#idle = new EvictionQueue(numLinks);
    this.#hostLeaves = new EvictionQueue(numLinks);
  }

  /** Blocks that `allocate()` can still give: free ones and idle ones. */
  get numAvailable(): number {
    return this.#pool.numFree + this.#numIdle;
  }
  /** Blocks copied to the host and back so far. */
  get numOffloaded(): number {
    return this.#numOffloaded;
  }
  get numOnboarded(): number {
    return this.#numOnboarded;
  }

  /** Tells the time, in milliseconds of any clock that never goes back: retention priorities may end. */
  tick(nowMs: number): void {
    for (const link of this.#worth.tick(nowMs)) this.#enqueue(link);
  }

  /** Takes a block, evicting the one of least worth when none is free. */
  allocate(): number {
    if (this.#pool.numFree === 0) this.#evict();
    return this.#pool.allocate();
  }

  /** Finds the longest known prefix of the first `limit` tokens. It stays as it is until anything else is called. */
  match(source: PrefixSource, limit: number, rules: WindowRules): PrefixMatch {
    this.#matched = [];
    if (!this.#isEnabled) return NO_MATCH;
    const numFull = Math.floor(limit / this.#blockSize);
    let parent = ROOT;
    while (this.#matched.length < numFull) {
      const link = this.#chains.find(source, this.#matched.length, parent);
      if (link === NO_LINK) break;
      this.#matched.push(link);
      parent = link;
    }
    const count = this.#matched.length;
    const first = firstBlockSeen(count * this.#blockSize, rules);
    this.#firstMatched = first;
    let numTaken = 0;
    for (const link of this.#matched.slice(first)) if (!this.#isOnDevice(link) || this.#isIdle(link)) numTaken += 1;
    return { count, first, numTaken };
  }

  /** Links of the last match, until it is taken. */
  get matchedLinks(): readonly number[] {
    return this.#matched;
  }

  /** The link whose tokens end with a block; -1 for a block that nobody else may use. */
  linkOf(block: number): number {
    return this.#links[block] ?? NO_LINK;
  }

  /** Holds the blocks of the last match and writes them to `table`. As many as it takes must be available. */
  take(source: PrefixSource, table: Int32Array): void {
    const first = this.#firstMatched;
    const links = this.#matched.slice(first);
    table.fill(-1, 0, first);
    for (const link of links) {
      if (this.#isOnDevice(link)) this.#holdLink(link);
      else {
        this.#hostLeaves.delete(link);
        this.#worth.stopExpiry(link);
        this.#locked.add(link);
      }
    }
    for (const [i, link] of links.entries()) {
      if (!this.#isOnDevice(link)) this.#onboard(link);
      this.#retainAs(link, source, first + i);
      table[first + i] = this.#blocks[link] ?? 0;
    }
    this.#locked.clear();
    this.#matched = [];
  }

  /** Adds a holder to blocks that are already held. */
  hold(table: Int32Array, first: number, end: number): void {
    for (let i = first; i < end; i++) this.#pool.retain(table[i] ?? -1);
  }

  /**
   * Registers the full block `index` of a chain. When the chain is known already, the caller's block is released and
   * `table` gets the known one: two sequences that computed the same prefix share it from then on.
   */
  commit(source: PrefixSource, index: number, table: Int32Array): void {
    if (!this.#isEnabled) return;
    const parent = index === 0 ? ROOT : this.linkOf(table[index - 1] ?? -1);
    if (parent === NO_LINK) return; // its parent lost a hash collision or was evicted: the chain ends there
    const block = table[index] ?? -1;
    const known = this.#chains.find(source, index, parent);
    if (known === NO_LINK) this.#add(source, index, parent, block);
    else if (this.#isOnDevice(known)) {
      this.#holdLink(known);
      this.#pool.release(block);
      table[index] = this.#blocks[known] ?? 0;
      this.#retainAs(known, source, index);
    } else {
      this.#leaveHost(known);
      this.#place(known, block);
      this.#pool.retain(block);
      this.#retainAs(known, source, index);
    }
  }

  /** Gives the blocks of `table[first, end)` back, last one first: ends of chains are worth less than their beginnings. */
  release(table: Int32Array, first: number, end: number): void {
    for (let i = end - 1; i >= first; i--) {
      const block = table[i] ?? -1;
      const left = this.#pool.release(block);
      const link = this.linkOf(block);
      if (left === 1 && link !== NO_LINK) this.#becomeIdle(link);
    }
  }

  /** Every hold of the cache, for the pool's check; checks itself on the way. */
  checkIntegrity(): number[] {
    this.#chains.checkIntegrity();
    const onDevice: number[] = [];
    const onHost: number[] = [];
    const numOnDevice = new Int32Array(this.#numOnDevice.length);
    let numIdle = 0;
    for (const link of this.#chains.links()) {
      const block = this.#blocks[link] ?? -1;
      if (this.linkOf(block) !== link) throw new Error(`prefix cache: block ${block} is not that of link ${link}`);
      const parent = this.#chains.parentOf(link);
      (this.#isOnDevice(link) ? onDevice : onHost).push(block);
      if (this.#isOnDevice(link) && parent >= 0) numOnDevice[parent] = (numOnDevice[parent] ?? 0) + 1;
      if (this.#isIdle(link)) numIdle += 1;
      this.#checkQueues(link);
    }
    if (numOnDevice.some((count, link) => count !== this.#numOnDevice[link]))
      throw new Error("prefix cache: onDevice children");
    if (numIdle !== this.#numIdle) throw new Error(`prefix cache: ${numIdle} idle blocks, expected ${this.#numIdle}`);
    this.#host.checkIntegrity(onHost.map((block) => block - this.#numBlocks));
    return onDevice;
  }

  #checkQueues(link: number): void {
    const isEvictable = this.#isIdle(link) && this.#numOnDevice[link] === 0;
    const isHostLeaf = !this.#isOnDevice(link) && this.#chains.numChildren(link) === 0;
    if (this.#idle.has(link) !== isEvictable || this.#hostLeaves.has(link) !== isHostLeaf) {
      throw new Error(`prefix cache: link ${link} stands in the wrong queue`);
    }
  }

  /** Whether its block lies in the device KV cache. */
  #isOnDevice(link: number): boolean {
    return (this.#blocks[link] ?? 0) < this.#numBlocks;
  }

  #isIdle(link: number): boolean {
    return this.#isOnDevice(link) && this.#pool.holders(this.#blocks[link] ?? -1) === 1;
  }

  #add(source: PrefixSource, index: number, parent: number, block: number): void {
    const link = this.#chains.add(source, index, parent);
    if (link === NO_LINK) return;
    this.#numOnDevice[link] = 0;
    this.#worth.reset(link);
    this.#place(link, block);
    this.#pool.retain(block);
    this.#retainAs(link, source, index);
  }

  /** A request's retention of a block holds until another request sets another one. */
  #retainAs(link: number, { request, promptLength }: PrefixSource, index: number): void {
    if (request.retention === undefined) return;
    const retention = blockRetention(request.retention, index * this.#blockSize, promptLength);
    if (retention !== undefined) this.#worth.retain(link, retention);
  }

  #holdLink(link: number): void {
    const block = this.#blocks[link] ?? -1;
    if (this.#pool.holders(block) === 1) {
      this.#numIdle -= 1;
      this.#idle.delete(link);
      this.#worth.stopExpiry(link);
    }
    this.#pool.retain(block);
  }

  #becomeIdle(link: number): void {
    this.#numIdle += 1;
    this.#worth.startExpiry(link);
    this.#enqueue(link);
  }

  /** Puts a link into the queue that it belongs in, if any. */
  #enqueue(link: number): void {
    if (link < 0) return;
    const queue = this.#queueOf(link);
    queue?.set(link, this.#worth.priority(link), this.#worth.lastUse(link));
  }

  #queueOf(link: number): EvictionQueue | undefined {
    if (this.#isOnDevice(link)) return this.#numOnDevice[link] === 0 && this.#isIdle(link) ? this.#idle : undefined;
    return this.#chains.numChildren(link) === 0 && !this.#locked.has(link) ? this.#hostLeaves : undefined;
  }

  #evict(): void {
    const link = this.#idle.first() ?? this.#idleParent();
    const block = this.#blocks[link] ?? -1;
    const slot = this.#hostSlot();
    if (slot === undefined) {
      this.#forget(link);
      return;
    }
    this.#numIdle -= 1;
    this.#idle.delete(link);
    this.#leaveDevice(link);
    this.#place(link, slot);
    this.#pool.release(block);
    this.#move(block, slot);
    this.#numOffloaded += 1;
    this.#enqueue(this.#chains.parentOf(link));
    this.#enqueue(link);
  }

  /** An idle link whose children are held: the parent has left the window of those that hold them. */
  #idleParent(): number {
    for (const link of this.#chains.links()) if (this.#isIdle(link)) return link;
    throw new Error("prefix cache: no block to evict");
  }

  /** A free block of the host KV cache, its least worth one given up when need be; undefined when there is none. */
  #hostSlot(): number | undefined {
    if (this.#host.numFree === 0) {
      const leaf = this.#hostLeaves.first();
      if (leaf === undefined) return undefined;
      this.#drop(leaf);
    }
    return this.#numBlocks + this.#host.allocate();
  }

  /** Copies a link of the host KV cache, whose parent is onDevice, to a device block. */
  #onboard(link: number): void {
    const slot = this.#blocks[link] ?? -1;
    const block = this.allocate(); // before the slot is given back, or it might be overwritten first
    this.#move(slot, block);
    this.#leaveHost(link);
    this.#place(link, block);
    this.#pool.retain(block);
    this.#numOnboarded += 1;
  }

  #leaveHost(link: number): void {
    const slot = this.#blocks[link] ?? -1;
    this.#hostLeaves.delete(link);
    this.#worth.stopExpiry(link);
    this.#links[slot] = NO_LINK;
    this.#host.release(slot - this.#numBlocks);
  }

  #leaveDevice(link: number): void {
    const parent = this.#chains.parentOf(link);
    this.#links[this.#blocks[link] ?? -1] = NO_LINK;
    if (parent >= 0) this.#numOnDevice[parent] = (this.#numOnDevice[parent] ?? 0) - 1;
  }

  #place(link: number, block: number): void {
    this.#blocks[link] = block;
    this.#links[block] = link;
    const parent = this.#chains.parentOf(link);
    if (block >= this.#numBlocks || parent < 0) return;
    this.#numOnDevice[parent] = (this.#numOnDevice[parent] ?? 0) + 1;
    this.#idle.delete(parent);
  }

  /** With all that hangs on it; blocks that sequences hold stay theirs, and are known no more. */
  #forget(link: number): void {
    if (this.#chains.numChildren(link) > 0) for (const each of this.#chains.descendants(link)) this.#drop(each);
    this.#drop(link);
  }

  #drop(link: number): void {
    const parent = this.#chains.parentOf(link);
    const block = this.#blocks[link] ?? -1;
    this.#worth.stopExpiry(link);
    if (this.#isOnDevice(link)) {
      if (this.#isIdle(link)) this.#numIdle -= 1;
      this.#idle.delete(link);
      this.#leaveDevice(link);
      this.#pool.release(block);
    } else this.#leaveHost(link);
    this.#chains.remove(link);
    this.#onForget?.(link);
    this.#enqueue(parent);
  }
}
