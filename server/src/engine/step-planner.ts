/**
 * Decides what the next step computes: which sequences, how many tokens of each. Numbers in, numbers out: it knows block
 * counts and lengths, no device, no logits and no request.
 *
 * `running` stands in order of admission. Every step serves the running sequences oldest first, decoding ones with one
 * token each and prefilling ones with what the token budget leaves, then admits waiting ones. When blocks run out the
 * newest running sequence gives up its blocks and goes back to the head of the queue, to be computed again later.
 */
import { BlockPool } from "./block-pool.ts";
import { PrefixCache } from "./prefix-cache.ts";
import type { Sequence } from "./sequence.ts";

/** `guaranteed_no_evict` admits what can run to its end for sure; `max_utilization` admits more and preempts. */
export type CapacityPolicy = "guaranteed_no_evict" | "max_utilization";

export interface PlannerConfig {
  readonly numBlocks: number;
  readonly blockSize: number;
  readonly maxSequences: number;
  /** Tokens of one step. Without chunking one prompt may exceed it. */
  readonly maxBatchTokens: number;
  readonly chunkedPrefill: boolean;
  readonly prefixReuse: boolean;
  readonly policy: CapacityPolicy;
}

/** One object for the life of the planner, filled anew by each `plan()`. */
export interface StepPlan {
  readonly sequences: Sequence[];
  readonly queryLengths: number[];
  /** Sequences whose first step this is. */
  readonly admitted: Sequence[];
  numTokens: number;
  /** Tokens of prompts among them, and the sequences those belong to. */
  numContextTokens: number;
  numContextSequences: number;
}

export class StepPlanner {
  readonly #config: PlannerConfig;
  readonly #pool: BlockPool;
  readonly #cache: PrefixCache;
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  readonly #plan: StepPlan = {
    sequences: [],
    queryLengths: [],
    admitted: [],
    numTokens: 0,
    numContextTokens: 0,
    numContextSequences: 0,
  };
  /** Tokens that prompts may still take in the step being planned. */
  #contextBudget = 0;
  #numPreemptions = 0;
  #numReusedBlocks = 0;
  #numNewBlocks = 0;

  constructor(config: PlannerConfig) {
    this.#config = config;
    this.#pool = new BlockPool(config.numBlocks);
    this.#cache = new PrefixCache(this.#pool, config.blockSize, config.prefixReuse);
  }

  get numWaiting(): number {
    return this.#waiting.length;
  }
  get numRunning(): number {
    return this.#running.length;
  }
  /** Free blocks, those that only the prefix cache holds included. */
  get numFreeBlocks(): number {
    return this.#cache.numAvailable;
  }
  get numPreemptions(): number {
    return this.#numPreemptions;
  }
  get numReusedBlocks(): number {
    return this.#numReusedBlocks;
  }
  get numNewBlocks(): number {
    return this.#numNewBlocks;
  }
  /** Sequences that ran already and were sent back to the queue. */
  get numPaused(): number {
    return this.#waiting.reduce((sum, sequence) => sum + (sequence.firstScheduledNs > 0 ? 1 : 0), 0);
  }

  /** Every sequence in the planner, oldest running first. */
  *sequences(): Iterable<Sequence> {
    yield* this.#running;
    yield* this.#waiting;
  }

  add(sequence: Sequence): void {
    this.#waiting.push(sequence);
  }

  /** Takes a sequence out, finished or not, and frees its blocks. */
  remove(sequence: Sequence): void {
    this.#free(sequence);
    this.#running = this.#running.filter((other) => other !== sequence);
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
  }

  /** What to compute next; undefined when there is nothing to do. Blocks for it are already held. */
  plan(): StepPlan | undefined {
    const plan = this.#plan;
    plan.sequences.length = 0;
    plan.queryLengths.length = 0;
    plan.admitted.length = 0;
    plan.numTokens = 0;
    plan.numContextTokens = 0;
    plan.numContextSequences = 0;
    const numDecoding = this.#running.reduce((sum, sequence) => sum + (toCompute(sequence) === 1 ? 1 : 0), 0);
    this.#contextBudget = Math.max(1, this.#config.maxBatchTokens - numDecoding);
    const isShort = this.#planRunning();
    if (!isShort) this.#admit();
    return plan.sequences.length === 0 ? undefined : plan;
  }

  /** Records that the planned tokens of a sequence are in the cache, and makes its new full blocks reusable. */
  computed(sequence: Sequence, queryLength: number): void {
    const { blockSize } = this.#config;
    const firstFull = Math.floor(sequence.numComputed / blockSize);
    sequence.numComputed += queryLength;
    const numFull = Math.floor(sequence.numComputed / blockSize);
    for (let index = firstFull; index < numFull; index++) {
      this.#cache.commit(sequence.tokens, index, sequence.request.cacheSalt, sequence.blockTable);
    }
  }

  /** @throws when a block is lost or held twice. For tests and idle moments. */
  checkIntegrity(): void {
    const holds = this.#cache.checkIntegrity();
    for (const sequence of this.#running) holds.push(...sequence.blockTable.subarray(0, sequence.numBlocks));
    for (const sequence of this.#waiting) {
      if (sequence.numBlocks > 0) throw new Error("step planner: a waiting sequence holds blocks");
    }
    this.#pool.checkIntegrity(holds);
  }

  /** True when blocks ran short, so that nothing new may be admitted in this step. */
  #planRunning(): boolean {
    let isShort = false;
    for (let i = 0; i < this.#running.length; i++) {
      const sequence = this.#running[i];
      if (sequence === undefined) break;
      const length = this.#queryLength(sequence);
      if (length === 0) continue;
      while (!this.#reserve(sequence, length)) {
        isShort = true;
        if (this.#preemptNewest() === sequence) return true;
      }
      this.#schedule(sequence, length);
      if (length > 1) this.#contextBudget -= length; // single tokens were taken off the budget before
    }
    return isShort;
  }

  #admit(): void {
    while (this.#running.length < this.#config.maxSequences && this.#contextBudget > 0) {
      const sequence = this.#waiting[0];
      if (sequence === undefined) return;
      const matched = this.#cache.match(
        sequence.tokens,
        sequence.numTokens - 1, // the last token must be computed: its logits are wanted
        sequence.request.cacheSalt,
        sequence.blockTable,
      );
      if (!this.#fits(sequence, matched)) return;
      sequence.numComputed = matched * this.#config.blockSize;
      const length = this.#queryLength(sequence);
      if (length === 0) {
        sequence.numComputed = 0;
        return;
      }
      this.#cache.hold(sequence.blockTable, matched);
      sequence.numBlocks = matched;
      sequence.reusedBlocks += matched;
      this.#numReusedBlocks += matched;
      this.#waiting.shift();
      this.#running.push(sequence);
      if (sequence.firstScheduledNs === 0) this.#plan.admitted.push(sequence);
      if (!this.#reserve(sequence, length)) throw new Error("step planner: an admitted sequence found no blocks");
      this.#schedule(sequence, length);
      this.#contextBudget -= length;
    }
  }

  /** Whether the capacity policy lets a waiting sequence in that has `matched` blocks in the prefix cache. */
  #fits(sequence: Sequence, matched: number): boolean {
    const available = this.#cache.numAvailable - this.#cache.countIdle(sequence.blockTable, matched);
    if (this.#config.policy === "max_utilization") {
      return this.#blocksFor(sequence.numTokens) - matched <= available;
    }
    let promised = this.#blocksFor(sequence.maxLength - 1) - matched; // the last token is never computed
    for (const other of this.#running) promised += this.#blocksFor(other.maxLength - 1) - other.numBlocks;
    return promised <= available;
  }

  #queryLength(sequence: Sequence): number {
    const wanted = toCompute(sequence);
    if (wanted === 1) return 1;
    if (this.#config.chunkedPrefill) return Math.min(wanted, this.#contextBudget);
    const isFirst = this.#plan.numContextTokens === 0;
    return isFirst || wanted <= this.#contextBudget ? wanted : 0;
  }

  /** Holds the blocks for the next `length` tokens of a sequence; false, with nothing taken, when there are too few. */
  #reserve(sequence: Sequence, length: number): boolean {
    const missing = this.#blocksFor(sequence.numComputed + length) - sequence.numBlocks;
    if (missing > this.#cache.numAvailable) return false;
    for (let i = 0; i < missing; i++) {
      sequence.blockTable[sequence.numBlocks] = this.#cache.allocate();
      sequence.numBlocks += 1;
      sequence.newBlocks += 1;
      this.#numNewBlocks += 1;
    }
    return true;
  }

  #schedule(sequence: Sequence, length: number): void {
    const plan = this.#plan;
    plan.sequences.push(sequence);
    plan.queryLengths.push(length);
    plan.numTokens += length;
    if (length > 1 || sequence.numComputed < sequence.promptLength) {
      plan.numContextTokens += length;
      plan.numContextSequences += 1;
    }
  }

  #preemptNewest(): Sequence {
    const victim = this.#running.pop();
    if (victim === undefined) throw new Error("step planner: no sequence to preempt");
    this.#free(victim);
    this.#waiting.unshift(victim);
    this.#numPreemptions += 1;
    return victim;
  }

  #free(sequence: Sequence): void {
    this.#cache.release(sequence.blockTable, sequence.numBlocks);
    sequence.numBlocks = 0;
    sequence.numComputed = 0;
  }

  #blocksFor(numTokens: number): number {
    return Math.ceil(numTokens / this.#config.blockSize);
  }
}

/** Tokens of a sequence that are not in the cache yet: 1 when it decodes, more when it prefills. */
function toCompute(sequence: Sequence): number {
  return sequence.numTokens - sequence.numComputed;
}
