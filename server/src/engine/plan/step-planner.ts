/**
 * Decides the next step: which sequences, how many tokens of each. It sees block counts and lengths: no device, no
 * logits and no request. Both lists are in priority order. Every step serves the running sequences first: one token for
 * each decoding one, and the rest of the token budget for prefilling ones. Then it admits waiting sequences. When
 * blocks run out, the running sequence of lowest priority releases its blocks and is queued again, to be recomputed
 * (continuous batching: Orca, Yu et al. 2022; paging and preemption: vLLM, Kwon et al. 2023).
 */

import { blockMap } from "../kv/block-map.ts";
import { BlockPool } from "../kv/block-pool.ts";
import { PrefixCache, type PrefixMatch } from "../kv/prefix-cache.ts";
import { waitsForPrefix } from "../kv/shared-prefix.ts";
import { firstBlockSeen, longestChunk } from "../kv/window-blocks.ts";
import { insertAfterEqual, insertBeforeEqual, orderKey } from "../priority-order.ts";
import type { Sequence } from "../request/sequence.ts";
import type { PlannerConfig } from "./planner-config.ts";
import { promptBudget } from "./prompt-budget.ts";
import { blocksToEnd, lanesOf, rulesOf } from "./sequence-blocks.ts";
import { SequenceStates } from "./sequence-states.ts";
import { StepPlan } from "./step-plan.ts";

const BLOCKS_CHECKED_PER_PLAN = 16;

export class StepPlanner {
  readonly #config: PlannerConfig;
  readonly #pool: BlockPool;
  readonly #cache: PrefixCache;
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  readonly #plan = new StepPlan();
  readonly #states: SequenceStates;
  /** Copies due since the last plan. */
  #copies: number[] = [];
  /** Tokens that prompts may still take in the step being planned. */
  #contextBudget = 0;
  #plansSinceCheck = 0;
  #numPreemptions = 0;
  #numReusedBlocks = 0;
  #numNewBlocks = 0;

  constructor(config: PlannerConfig) {
    this.#config = config;
    this.#pool = new BlockPool(config.numBlocks);
    this.#states = new SequenceStates(config.blockSize, config.numStates, config.numSnapshots);
    this.#cache = new PrefixCache({
      pool: this.#pool,
      blockSize: config.blockSize,
      isEnabled: config.prefixReuse,
      numHostBlocks: config.window === undefined ? config.numHostBlocks : 0,
      move: (from, to) => this.#copies.push(from, to),
      onForget: (link) => this.#states.forget(link),
    });
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
  /** A letter for each block, or for some neighbours. */
  get blocks(): string {
    return blockMap(this.#pool, this.#cache);
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
  get numOffloadedBlocks(): number {
    return this.#cache.numOffloaded;
  }
  get numOnboardedBlocks(): number {
    return this.#cache.numOnboarded;
  }
  /** Sequences that ran already and were sent back to the queue. */
  get numPaused(): number {
    return this.#waiting.reduce((sum, sequence) => sum + (sequence.firstScheduledNs > 0 ? 1 : 0), 0);
  }

  /** Every sequence in the planner, running ones first. */
  *sequences(): Iterable<Sequence> {
    yield* this.#running;
    yield* this.#waiting;
  }

  add(sequence: Sequence): void {
    sequence.orderKey = orderKey(sequence.arrivalNs / 1e6, sequence.request.priority);
    insertAfterEqual(this.#waiting, sequence);
  }

  /** Takes a sequence out, finished or not, and frees its blocks. */
  remove(sequence: Sequence): void {
    this.#free(sequence);
    this.#running = this.#running.filter((other) => other !== sequence);
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
  }

  /**
   * The next step, with its blocks already held; undefined when there is nothing to do. `nowMs` is a monotonic clock:
   * block retention may expire.
   */
  plan(nowMs = 0): StepPlan | undefined {
    const plan = this.#plan;
    this.#plansSinceCheck += 1;
    this.#cache.tick(nowMs);
    let running = this.#planRunning();
    let isShort = running !== "all";
    while (running === "again") running = this.#planRunning();
    isShort ||= running === "short";
    // A beam that waits for its siblings runs without work. When nothing else is left, the siblings must be admitted.
    if (!isShort || plan.sequences.length === 0) this.#admit();
    if (!isShort) this.#planDrafts();
    if (plan.sequences.length === 0) return undefined;
    plan.blockCopies = this.#copies;
    this.#copies = [];
    plan.stateCopies = this.#states.takeCopies();
    return plan;
  }

  #clearPlan(): void {
    this.#plan.clear();
    this.#contextBudget = promptBudget(this.#config.maxBatchTokens, this.#running, this.#waiting);
  }

  /**
   * Puts `child`, which holds nothing and has the tokens of `parent`, beside it: full blocks are shared, a part of one
   * is copied before the next step. Without blocks for that it queues up first and is computed anew.
   */
  fork(parent: Sequence, child: Sequence): void {
    child.orderKey = parent.orderKey;
    const { blockSize } = this.#config;
    const numFull = Math.floor(parent.numComputed / blockSize);
    const hasPart = parent.numComputed % blockSize > 0;
    const at = this.#running.indexOf(parent);
    if (at < 0 || !this.#states.hasRoom || (hasPart && this.#cache.numAvailable === 0)) {
      insertBeforeEqual(this.#waiting, child);
      return;
    }
    child.blockTable.set(parent.blockTable.subarray(0, numFull));
    this.#cache.hold(child.blockTable, 0, numFull);
    if (hasPart) {
      const block = this.#cache.allocate();
      child.blockTable[numFull] = block;
      child.newBlocks += 1;
      this.#numNewBlocks += 1;
      this.#copies.push(parent.blockTable[numFull] ?? 0, block);
    }
    child.numBlocks = numFull + (hasPart ? 1 : 0);
    child.numComputed = parent.numComputed;
    this.#states.fork(parent, child);
    this.#running.splice(at + 1, 0, child);
  }

  /** Records that the planned tokens of a sequence are in the cache, and makes its new full blocks reusable. */
  computed(sequence: Sequence, queryLength: number): void {
    const first = sequence.numComputed;
    sequence.numComputed += queryLength;
    this.share(sequence, first, sequence.numComputed);
    const link = this.#cache.linkOf(this.#states.blockToKeep(sequence) ?? -1);
    if (link >= 0) this.#states.keep(sequence, link);
  }

  /** Makes the blocks reusable that are full with the tokens from `first` to `end`, all of which are known. */
  share(sequence: Sequence, first: number, end: number): void {
    const { blockSize } = this.#config;
    if (sequence.group?.isForked === true) return; // what beams wrote is of no use to others
    const numFull = Math.floor(end / blockSize);
    for (let index = Math.floor(first / blockSize); index < numFull; index++) {
      // Blocks that no layer reads any more may be gone.
      if (index >= sequence.firstBlock) this.#cache.commit(sequence, index, sequence.blockTable);
    }
  }

  /** Gives back the blocks that were held for drafts and hold none of the sequence's tokens. */
  trim(sequence: Sequence): void {
    const kept = this.#blocksFor(sequence.numTokens);
    const count = sequence.numBlocks - kept;
    if (count <= 0) return;
    this.#cache.release(sequence.blockTable, kept, sequence.numBlocks);
    sequence.numBlocks = kept;
    sequence.newBlocks -= count;
    this.#numNewBlocks -= count;
  }

  /** @throws when a block is lost or held twice. For tests and idle moments. */
  checkIntegrity(): void {
    const holds = this.#cache.checkIntegrity();
    for (const { blockTable, firstBlock, numBlocks } of this.#running) {
      holds.push(...blockTable.subarray(firstBlock, numBlocks));
    }
    for (const sequence of this.#waiting) {
      if (sequence.numBlocks > 0) throw new Error("step planner: a waiting sequence holds blocks");
    }
    this.#pool.checkIntegrity(holds);
    this.#states.checkIntegrity(this.#running);
  }

  /** The same at most once in as many plans as make its time, some 0.2 us a block, small against theirs. */
  checkIntegrityNowAndThen(): void {
    if (this.#plansSinceCheck * BLOCKS_CHECKED_PER_PLAN < this.#config.numBlocks) return;
    this.#plansSinceCheck = 0;
    this.checkIntegrity();
  }

  /**
   * "short": blocks ran short, so nothing new may be admitted in this step. "again": a beam search gave up its blocks,
   * and parts of it may be in the plan, so the plan must be made again. Blocks held for it stay held.
   */
  #planRunning(): "all" | "short" | "again" {
    this.#clearPlan();
    let isShort = false;
    for (let i = 0; i < this.#running.length; i++) {
      const sequence = this.#running[i];
      if (sequence === undefined) break;
      const length = this.#queryLength(sequence);
      if (length === 0) continue;
      this.#giveBackUnseen(sequence);
      const before = this.#numPreemptions;
      const got = this.#reserveByForce(sequence, length);
      isShort ||= this.#numPreemptions > before;
      if (got !== "blocks") return got;
      this.#plan.add(sequence, length);
      if (length > 1) this.#contextBudget -= length; // single tokens were taken off the budget before
    }
    return isShort ? "short" : "all";
  }

  /** Takes blocks from the last sequences until there are enough, or until `sequence` itself is one of those. */
  #reserveByForce(sequence: Sequence, length: number): "blocks" | "short" | "again" {
    while (!this.#reserve(sequence, length)) {
      const victim = this.#preemptLast();
      if (victim.group !== undefined) return "again";
      if (victim === sequence) return "short";
    }
    return "blocks";
  }

  #admit(): void {
    if (this.#waiting.length === 0) return;
    let lanes = this.#running.reduce((sum, sequence) => sum + lanesOf(sequence), 0);
    const deferred = new Set<Sequence>();
    const { blockSize } = this.#config;
    while (this.#contextBudget > 0) {
      const sequence = this.#nextWaiting(deferred);
      if (sequence === undefined || !this.#states.hasRoom || lanes + lanesOf(sequence) > this.#config.maxSequences)
        return;
      const limit = this.#reusableTokens(sequence);
      const known = this.#cache.match(sequence, limit, rulesOf(sequence, this.#config));
      if (waitsForPrefix(sequence, this.#plan, { count: known.count, limit, blockSize })) {
        deferred.add(sequence);
        continue;
      }
      const match = this.#withState(sequence, known);
      if (!this.#fits(sequence, match)) return;
      sequence.numComputed = match.count * blockSize;
      const length = this.#queryLength(sequence);
      if (length === 0) {
        sequence.numComputed = 0;
        return;
      }
      this.#takeIn(sequence, match);
      lanes += lanesOf(sequence);
      if (!this.#reserve(sequence, length)) throw new Error("step planner: an admitted sequence found no blocks");
      this.#plan.add(sequence, length);
      this.#contextBudget -= length;
    }
  }

  /** Drafts behind the tokens of complete sequences, as many as budget and blocks are left for. */
  #planDrafts(): void {
    const plan = this.#plan;
    for (let i = 0; i < plan.sequences.length && this.#contextBudget > 0; i++) {
      const sequence = plan.sequences[i];
      const length = plan.queryLengths[i] ?? 0;
      if (sequence === undefined || sequence.numDrafts === 0) continue;
      if (sequence.numComputed + length !== sequence.numTokens) continue;
      const count = Math.min(sequence.numDrafts, this.#contextBudget);
      if (!this.#reserve(sequence, length + count)) continue;
      plan.queryLengths[i] = length + count;
      plan.numTokens += count;
      this.#contextBudget -= count;
    }
  }

  /** The first in line; beams whose others run and wait for them come before anybody. */
  #nextWaiting(deferred: ReadonlySet<Sequence>): Sequence | undefined {
    const isAwaited = ({ group }: Sequence): boolean =>
      group !== undefined && this.#running.some((other) => other.group === group);
    return this.#waiting.find(isAwaited) ?? this.#waiting.find((each) => !deferred.has(each));
  }

  /** Tokens whose logits are requested must be computed. */
  #reusableTokens({ wantsPromptRows, numTokens }: Sequence): number {
    return wantsPromptRows || !this.#config.prefixReuse ? 0 : numTokens - 1;
  }

  /** The part of a match behind which the state is known. */
  #withState(sequence: Sequence, known: PrefixMatch): PrefixMatch {
    const { blockSize } = this.#config;
    sequence.numShared = known.count * blockSize;
    const count = this.#states.reusable(this.#cache.matchedLinks);
    return count === known.count
      ? known
      : this.#cache.match(sequence, count * blockSize, rulesOf(sequence, this.#config));
  }

  #takeIn(sequence: Sequence, { count, first }: PrefixMatch): void {
    this.#states.take(sequence, this.#cache.matchedLinks[count - 1]);
    this.#cache.take(sequence, sequence.blockTable);
    sequence.needsEncoding = sequence.request.encoderInput !== undefined;
    sequence.firstBlock = first;
    sequence.numBlocks = count;
    sequence.reusedBlocks += count - first;
    this.#numReusedBlocks += count - first;
    this.#waiting.splice(this.#waiting.indexOf(sequence), 1);
    insertAfterEqual(this.#running, sequence);
    if (sequence.firstScheduledNs === 0) this.#plan.admitted.push(sequence);
  }

  /** Whether the capacity policy lets a waiting sequence in that has `match` in the prefix cache. */
  #fits(sequence: Sequence, match: PrefixMatch): boolean {
    const { policy, numBlocks } = this.#config;
    const available = this.#cache.numAvailable - match.numTaken;
    const hasWindow = rulesOf(sequence, this.#config).window !== undefined;
    if (policy === "max_utilization") {
      const missing = lanesOf(sequence) * this.#blocksFor(sequence.numTokens + sequence.numPending) - match.count;
      const inOneStep = this.#blocksFor(longestChunk(sequence.numTokens + sequence.numPending, this.#config));
      return (hasWindow ? Math.min(missing, inOneStep) : missing) <= available;
    }
    let promised = blocksToEnd(sequence, this.#config);
    for (const other of this.#running) promised += blocksToEnd(other, this.#config);
    // With windows blocks come and go, shared ones at another time for each holder: all are counted for each.
    if (this.#config.window !== undefined) return promised <= numBlocks;
    for (const other of this.#running) promised -= other.numBlocks;
    return promised - match.count <= available;
  }

  /** Blocks that no layer looks at any more. */
  #giveBackUnseen(sequence: Sequence): void {
    if (this.#config.window === undefined || sequence.group !== undefined) return;
    const { blockTable, firstBlock, numBlocks } = sequence;
    const first = Math.min(numBlocks, firstBlockSeen(sequence.numComputed, this.#config));
    if (first <= firstBlock) return;
    this.#cache.release(blockTable, firstBlock, first);
    blockTable.fill(-1, firstBlock, first);
    sequence.firstBlock = first;
  }

  #queryLength(sequence: Sequence): number {
    const wanted = sequence.numToCompute;
    if (wanted <= 1) return wanted;
    if (this.#config.chunkedPrefill) return this.#states.chunkOf(sequence, Math.min(wanted, this.#contextBudget));
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

  #preemptLast(): Sequence {
    const victim = this.#running.at(-1);
    if (victim === undefined) throw new Error("step planner: no sequence to preempt");
    const victims = victim.group === undefined ? [victim] : this.#running.filter((each) => each.group === victim.group);
    this.#running = this.#running.filter((each) => !victims.includes(each));
    for (const each of victims) this.#free(each);
    for (const each of victims.reverse()) insertBeforeEqual(this.#waiting, each);
    this.#numPreemptions += victims.length;
    return victim;
  }

  #free(sequence: Sequence): void {
    this.#cache.release(sequence.blockTable, sequence.firstBlock, sequence.numBlocks);
    this.#states.release(sequence);
    sequence.firstBlock = 0;
    sequence.numBlocks = 0;
    sequence.numComputed = 0;
    sequence.numReleases += 1;
  }

  #blocksFor(numTokens: number): number {
    return Math.ceil(numTokens / this.#config.blockSize);
  }
}
