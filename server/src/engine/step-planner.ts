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
  /** Pairs of blocks to copy before the step: from, to. */
  readonly blockCopies: number[];
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
    blockCopies: [],
  };
  /** Copies due since the last plan. */
  #copies: number[] = [];
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
    let running = this.#planRunning();
    let isShort = running !== "all";
    while (running === "again") running = this.#planRunning();
    isShort ||= running === "short";
    if (!isShort) {
      this.#admit();
      this.#planDrafts();
    }
    if (plan.sequences.length === 0) return undefined;
    plan.blockCopies.length = 0;
    plan.blockCopies.push(...this.#copies);
    this.#copies.length = 0;
    return plan;
  }

  #clearPlan(): void {
    const plan = this.#plan;
    plan.sequences.length = 0;
    plan.queryLengths.length = 0;
    plan.admitted.length = 0;
    plan.numTokens = 0;
    plan.numContextTokens = 0;
    plan.numContextSequences = 0;
    const numDecoding = this.#running.reduce((sum, sequence) => sum + (toCompute(sequence) === 1 ? 1 : 0), 0);
    this.#contextBudget = Math.max(1, this.#config.maxBatchTokens - numDecoding);
  }

  /**
   * Puts `child`, which holds nothing and has the tokens of `parent`, beside it: full blocks are shared, a part of one
   * is copied before the next step. Without blocks for that it queues up first and is computed anew.
   */
  fork(parent: Sequence, child: Sequence): void {
    const { blockSize } = this.#config;
    const numFull = Math.floor(parent.numComputed / blockSize);
    const hasPart = parent.numComputed % blockSize > 0;
    const at = this.#running.indexOf(parent);
    if (at < 0 || (hasPart && this.#cache.numAvailable === 0)) {
      this.#waiting.unshift(child);
      return;
    }
    child.blockTable.set(parent.blockTable.subarray(0, numFull));
    this.#cache.hold(child.blockTable, numFull);
    if (hasPart) {
      const block = this.#cache.allocate();
      child.blockTable[numFull] = block;
      child.newBlocks += 1;
      this.#numNewBlocks += 1;
      this.#copies.push(parent.blockTable[numFull] ?? 0, block);
    }
    child.numBlocks = numFull + (hasPart ? 1 : 0);
    child.numComputed = parent.numComputed;
    this.#running.splice(at + 1, 0, child);
  }

  /** Records that the planned tokens of a sequence are in the cache, and makes its new full blocks reusable. */
  computed(sequence: Sequence, queryLength: number): void {
    const { blockSize } = this.#config;
    if (sequence.group?.isForked === true) {
      sequence.numComputed += queryLength; // what beams wrote is of no use to others
      return;
    }
    const firstFull = Math.floor(sequence.numComputed / blockSize);
    sequence.numComputed += queryLength;
    const numFull = Math.floor(sequence.numComputed / blockSize);
    for (let index = firstFull; index < numFull; index++) {
      this.#cache.commit(sequence.tokens, index, sequence.request.cacheSalt, sequence.blockTable);
    }
  }

  /** Gives back the blocks that were held for guesses and hold none of the sequence's tokens. */
  trim(sequence: Sequence): void {
    const kept = this.#blocksFor(sequence.numTokens);
    const count = sequence.numBlocks - kept;
    if (count <= 0) return;
    this.#cache.release(sequence.blockTable.subarray(kept), count);
    sequence.numBlocks = kept;
    sequence.newBlocks -= count;
    this.#numNewBlocks -= count;
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

  /**
   * "short": blocks ran short, so that nothing new may be admitted in this step. "again": a whole beam search gave up its
   * blocks, parts of which may stand in the plan, so the plan must be made once more; blocks held for it stay held.
   */
  #planRunning(): "all" | "short" | "again" {
    this.#clearPlan();
    let isShort = false;
    for (let i = 0; i < this.#running.length; i++) {
      const sequence = this.#running[i];
      if (sequence === undefined) break;
      const length = this.#queryLength(sequence);
      if (length === 0) continue;
      const before = this.#numPreemptions;
      const got = this.#reserveByForce(sequence, length);
      isShort ||= this.#numPreemptions > before;
      if (got !== "blocks") return got;
      this.#schedule(sequence, length);
      if (length > 1) this.#contextBudget -= length; // single tokens were taken off the budget before
    }
    return isShort ? "short" : "all";
  }

  /** Takes blocks from the newest sequences until there are enough, or until `sequence` itself is one of those. */
  #reserveByForce(sequence: Sequence, length: number): "blocks" | "short" | "again" {
    while (!this.#reserve(sequence, length)) {
      const victim = this.#preemptNewest();
      if (victim.group !== undefined) return "again";
      if (victim === sequence) return "short";
    }
    return "blocks";
  }

  #admit(): void {
    if (this.#waiting.length === 0) return;
    let lanes = this.#running.reduce((sum, sequence) => sum + lanesOf(sequence), 0);
    while (this.#contextBudget > 0) {
      const sequence = this.#waiting[0];
      if (sequence === undefined || lanes + lanesOf(sequence) > this.#config.maxSequences) return;
      const matched = this.#cache.match(
        sequence.tokens,
        sequence.wantsPromptRows ? 0 : sequence.numTokens - 1, // what logits are wanted of must be computed
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
      lanes += lanesOf(sequence);
      if (sequence.firstScheduledNs === 0) this.#plan.admitted.push(sequence);
      if (!this.#reserve(sequence, length)) throw new Error("step planner: an admitted sequence found no blocks");
      this.#schedule(sequence, length);
      this.#contextBudget -= length;
    }
  }

  /** Guesses take what tokens and blocks the step has left, and push nobody out. */
  #planDrafts(): void {
    const plan = this.#plan;
    for (let i = 0; i < plan.sequences.length && this.#contextBudget > 0; i++) {
      const sequence = plan.sequences[i];
      const length = plan.queryLengths[i] ?? 0;
      if (sequence === undefined || sequence.numDrafts === 0 || length < toCompute(sequence)) continue;
      const count = Math.min(sequence.numDrafts, this.#contextBudget);
      if (!this.#reserve(sequence, length + count)) continue;
      plan.queryLengths[i] = length + count;
      plan.numTokens += count;
      this.#contextBudget -= count;
    }
  }

  /** Whether the capacity policy lets a waiting sequence in that has `matched` blocks in the prefix cache. */
  #fits(sequence: Sequence, matched: number): boolean {
    const available = this.#cache.numAvailable - this.#cache.countIdle(sequence.blockTable, matched);
    if (this.#config.policy === "max_utilization") {
      return lanesOf(sequence) * this.#blocksFor(sequence.numTokens) - matched <= available;
    }
    let promised = this.#blocksToEnd(sequence) - matched;
    for (const other of this.#running) promised += this.#blocksToEnd(other) - other.numBlocks;
    return promised <= available;
  }

  /** Its last token is never computed. Beams are counted as if they shared nothing. */
  #blocksToEnd(sequence: Sequence): number {
    return lanesOf(sequence) * this.#blocksFor(sequence.maxLength - 1);
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
    const victim = this.#running.at(-1);
    if (victim === undefined) throw new Error("step planner: no sequence to preempt");
    const victims = victim.group === undefined ? [victim] : this.#running.filter((each) => each.group === victim.group);
    this.#running = this.#running.filter((each) => !victims.includes(each));
    for (const each of victims) this.#free(each);
    this.#waiting.unshift(...victims);
    this.#numPreemptions += victims.length;
    return victim;
  }

  #free(sequence: Sequence): void {
    if (this.#copies.length > 0) this.#dropCopies(sequence);
    this.#cache.release(sequence.blockTable, sequence.numBlocks);
    sequence.numBlocks = 0;
    sequence.numComputed = 0;
  }

  /** Copies into blocks that are given back: their next holder may be copied to as well. */
  #dropCopies({ blockTable, numBlocks }: Sequence): void {
    const own = blockTable.subarray(0, numBlocks);
    const kept: number[] = [];
    for (let i = 0; i < this.#copies.length; i += 2) {
      const [from = 0, to = 0] = this.#copies.slice(i, i + 2);
      if (!own.includes(to)) kept.push(from, to);
    }
    this.#copies = kept;
  }

  #blocksFor(numTokens: number): number {
    return Math.ceil(numTokens / this.#config.blockSize);
  }
}

/** Sequences that it stands for: a beam search takes its places before it forks. */
function lanesOf({ group }: Sequence): number {
  return group === undefined || group.isForked ? 1 : group.width;
}

/** Tokens of a sequence that are not in the cache yet: 1 when it decodes, more when it prefills. */
function toCompute(sequence: Sequence): number {
  return sequence.numTokens - sequence.numComputed;
}
