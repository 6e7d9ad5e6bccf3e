/**
 * The sequence batcher: binds each sequence to an instance and a slot and runs its requests in order. Source: Triton
 * documentation, "Sequence Batcher". Strategies form the batches, the pool assigns slots; sequences begin, wait, end
 * and expire here.
 */
import type { ModelInstance } from "../../backend/backend.ts";
import { type InferRequest, isCancelled, type SequenceInfo } from "../../core/infer-request.ts";
import type { ModelConfig, ModelSequenceBatching } from "../../core/model-config.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import type { ServerError } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { batchKeyOf } from "../batch/batch-key.ts";
import { type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { InFlight, stopping } from "../in-flight.ts";
import type { InstanceLimits } from "../instance-pool.ts";
import type { StatisticsCounter } from "../model-statistics.ts";
import { cancelled } from "../request-queue.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { LeavingInstance, Scheduler } from "../scheduler.ts";
import { NO_HOLD, type StartHold } from "../start-hold.ts";
import { SequenceBacklog } from "./backlog.ts";
import { DirectStrategy } from "./direct.ts";
import { DirectHold } from "./direct-hold.ts";
import type { SequenceFeed } from "./feed.ts";
import { IdleReaper } from "./idle.ts";
import { IterativeFlags } from "./iterative-flags.ts";
import { SequenceLane } from "./lane.ts";
import { OldestStrategy } from "./oldest.ts";
import { backlogTimeout, checkSequenceRequest, startMissing } from "./rules.ts";
import { ClientSequence, type QueuedRequest } from "./sequence.ts";
import { type Slot, SlotPool } from "./slots.ts";
import type { SequenceStrategy } from "./strategy.ts";

const US_PER_MS = 1000;

export interface SequenceSchedulerOptions {
  readonly config: ModelConfig;
  readonly batching: ModelSequenceBatching;
  readonly feed: SequenceFeed;
  readonly signature: ModelSignature;
  readonly instances: readonly ModelInstance[];
  readonly statistics: StatisticsCounter;
  readonly log: Logger;
  /** Set when executions wait for resources. */
  readonly limits?: InstanceLimits | undefined;
  readonly clock?: Clock | undefined;
  /** Absent: batches start at once. */
  readonly hold?: StartHold | undefined;
}

export class SequenceScheduler implements Scheduler {
  readonly #options: SequenceSchedulerOptions;
  /** By the number of their slots. */
  readonly #lanes = new Map<number, SequenceLane>();
  /** Instances that are to go when their sequences have ended. */
  readonly #retired = new Map<number, () => void>();
  readonly #keyOf: (request: InferRequest) => string;
  readonly #slots: SlotPool;
  readonly #backlog: SequenceBacklog;
  readonly #idle: IdleReaper<ClientSequence>;
  /** Sequences that take requests, by correlation id. */
  readonly #live = new Map<bigint | string, ClientSequence>();
  /** The latest sequence of an id that accepts no more requests but has requests left. */
  readonly #ending = new Map<bigint | string, ClientSequence>();
  readonly #inFlight = new InFlight();
  /** Set when each request is its own sequence, which the backend may run many times. */
  readonly #iteration: IterativeFlags | undefined;
  /** Over all instances of the direct strategy; undefined where none holds. */
  readonly #hold: DirectHold | undefined;
  #isClosed = false;

  constructor(options: SequenceSchedulerOptions) {
    const { config, batching, clock = SYSTEM_CLOCK, hold = NO_HOLD } = options;
    this.#options = options;
    this.#backlog = new SequenceBacklog(clock, (sequence) => this.#giveUp(sequence, backlogTimeout));
    this.#idle = new IdleReaper(clock, batching.max_sequence_idle_microseconds / US_PER_MS, (idle) =>
      this.#expire(idle),
    );
    this.#iteration = batching.iterative_sequence ? new IterativeFlags(options.feed.controls.correlation) : undefined;
    const isDirect = batching.oldest === undefined;
    this.#hold = isDirect && hold.queued > 0 ? new DirectHold(hold) : undefined;
    this.#keyOf = batchKeyOf(options.signature);
    this.#slots = new SlotPool(0, slotsPerInstance(config, batching));
    for (const instance of options.instances) this.#addLane(instance);
  }

  get inFlight(): number {
    return this.#inFlight.count;
  }

  enqueue(request: ScheduledRequest): void {
    let sequence: ClientSequence;
    const flags = this.#iteration?.first(request.request.sequence) ?? request.request.sequence;
    try {
      sequence = this.#sequenceOf(request, flags);
    } catch (error) {
      request.refused();
      throw error;
    }
    this.#inFlight.begin();
    request.onEnd = () => this.#inFlight.end();
    this.#add(sequence, request, flags);
  }

  /** Draining: running sequences continue while accepted requests are left; no sequence begins. */
  async drain(): Promise<void> {
    await this.#inFlight.drain();
    this.#isClosed = true;
    this.#idle.clear();
    for (const left of this.#retired.values()) left();
    await Promise.all([...this.#lanes.values()].map((lane) => lane.settled()));
  }

  /** A removed instance stays until its sequences have ended; no sequence begins on it. */
  resize(instances: readonly ModelInstance[]): readonly LeavingInstance[] {
    const fresh = new Set(instances);
    const leaving: LeavingInstance[] = [];
    for (const [number, lane] of this.#lanes) {
      const { instance } = lane;
      if (fresh.delete(instance) || this.#retired.has(number)) continue;
      leaving.push({ instance, idle: this.#retire(number, lane) });
    }
    for (const instance of fresh) this.#addLane(instance);
    for (let slot = this.#nextSlot(); slot !== undefined; slot = this.#nextSlot()) {
      const waiting = this.#backlog.shift();
      if (waiting !== undefined) this.#place(waiting, slot);
    }
    return leaving;
  }

  /** Undefined: nobody waits for a slot, or none is free. */
  #nextSlot(): Slot | undefined {
    return this.#backlog.isEmpty ? undefined : this.#slots.acquire();
  }

  async #retire(number: number, lane: SequenceLane): Promise<void> {
    if (this.#slots.retire(number)) this.#lanes.delete(number);
    else await new Promise<void>((left) => this.#retired.set(number, left));
    await lane.settled();
  }

  #addLane(instance: ModelInstance): void {
    const { config, batching, feed, statistics, log, limits, clock = SYSTEM_CLOCK, hold = NO_HOLD } = this.#options;
    const isDirect = batching.oldest === undefined;
    const lane = new SequenceLane({
      instance,
      strategy: strategyOf(config, batching),
      feed,
      keyOf: this.#keyOf,
      statistics,
      decoupled: config.model_transaction_policy?.decoupled ?? false,
      isBatching: config.max_batch_size > 1,
      preserveOrdering: batching.oldest?.preserve_ordering ?? false,
      log,
      limits,
      clock,
      isHeld: isDirect ? this.#hold && (() => this.#hold?.isOver === false) : offersHeld(hold.queued),
      onDone: (sequence) => this.#done(sequence),
      onCancelled: (sequence) => this.#giveUp(sequence, cancelled),
      onGivenBack: this.#iteration && ((sequence, request) => this.#again(sequence, request)),
    });
    this.#lanes.set(this.#slots.add(), lane);
  }

  #sequenceOf({ request, batchSize }: ScheduledRequest, { id, start }: SequenceInfo): ClientSequence {
    const { feed, signature, log } = this.#options;
    const { modelName } = signature;
    checkSequenceRequest(request, batchSize, modelName, feed.controls.correlation, this.#iteration === undefined);
    if (this.#isClosed || (this.#inFlight.isStopping && start)) throw stopping();
    const live = this.#live.get(id);
    if (live === undefined) {
      if (!start) throw startMissing(id, modelName);
      return this.#begin(id);
    }
    if (start) {
      const text = `sequence ${id} for model '${modelName}' has a conflict. The previous sequence did not end before this sequence start. Previous sequence will be terminated early.`;
      log.warn("sequence", text);
    }
    return live;
  }

  #begin(id: bigint | string): ClientSequence {
    const sequence = new ClientSequence(id, this.#options.feed.newState());
    this.#live.set(id, sequence);
    sequence.predecessor = this.#ending.get(id);
    if (sequence.predecessor !== undefined) sequence.predecessor.successor = sequence;
    const slot = this.#slots.acquire();
    if (slot === undefined) this.#backlog.add(sequence);
    else this.#place(sequence, slot);
    return sequence;
  }

  #add(sequence: ClientSequence, request: ScheduledRequest, flags: SequenceInfo): void {
    const { timeoutUs } = request.request;
    const queued: QueuedRequest = { request, flags, isAgain: false, unlisten: undefined };
    this.#idle.stop(sequence);
    sequence.queue.push(queued);
    const isHoldOver = this.#hold?.count(sequence.slot === undefined) === true;
    if (flags.end || this.#iteration !== undefined) this.#takeNoMore(sequence);
    if (timeoutUs > 0 && !isCancelled(request.request)) this.#backlog.limit(sequence, timeoutUs, request.queuedMs);
    this.#offer(sequence, queued);
    if (isHoldOver) for (const lane of this.#lanes.values()) lane.resume();
  }

  /** The backend reschedules the request: it goes behind the other ready ones. */
  #again(sequence: ClientSequence, { request, flags }: QueuedRequest): void {
    const queued: QueuedRequest = { request, flags: { ...flags, start: false }, isAgain: true, unlisten: undefined };
    sequence.queue.unshift(queued);
    this.#offer(sequence, queued);
  }

  #offer(sequence: ClientSequence, queued: QueuedRequest): void {
    if (isCancelled(queued.request.request)) {
      this.#giveUp(sequence, cancelled);
      return;
    }
    this.#advance(sequence);
    if (sequence.queue[0] !== queued && sequence.queue.at(-1) !== queued) return;
    const isSoon = sequence.isOffered && sequence.queue[0] === queued && this.#isFree(sequence);
    if (isSoon) return; // checked once more before it starts
    const { signal } = queued.request.request;
    const onAbort = (): void => this.#giveUp(sequence, cancelled);
    signal.addEventListener("abort", onAbort, { once: true });
    queued.unlisten = () => signal.removeEventListener("abort", onAbort);
  }

  #place(sequence: ClientSequence, slot: Slot): void {
    sequence.slot = slot;
    sequence.deadlineMs = Number.POSITIVE_INFINITY;
    this.#laneOf(slot).enter(sequence);
    this.#advance(sequence);
  }

  #advance(sequence: ClientSequence): void {
    if (sequence.isReady && sequence.slot !== undefined) this.#laneOf(sequence.slot).offer(sequence);
  }

  /** A request of the sequence has ended and its execution is over. */
  #done(sequence: ClientSequence): void {
    if (sequence.queue.length > 0) this.#advance(sequence);
    else if (sequence.isLast) this.#finish(sequence);
    else if (!this.#isClosed) this.#idle.start(sequence);
  }

  #takeNoMore(sequence: ClientSequence): void {
    if (sequence.isLast) return;
    sequence.isLast = true;
    this.#live.delete(sequence.id);
    this.#ending.set(sequence.id, sequence);
  }

  /** The sequence has no requests left: its slot goes to the longest-waiting one. */
  #finish(sequence: ClientSequence): void {
    const { slot } = sequence;
    this.#idle.stop(sequence);
    this.#backlog.delete(sequence);
    if (slot !== undefined) {
      this.#laneOf(slot).leave(sequence);
      sequence.slot = undefined;
      this.#free(slot);
    }
    this.#leaveChain(sequence);
  }

  /** To the longest-waiting sequence, unless the slot is of an instance that goes. */
  #free(slot: Slot): void {
    const left = this.#retired.get(slot.lane);
    const waiting = left === undefined ? this.#backlog.shift() : undefined;
    if (waiting !== undefined) {
      this.#place(waiting, slot);
      return;
    }
    if (!this.#slots.release(slot)) return;
    this.#lanes.delete(slot.lane);
    this.#retired.delete(slot.lane);
    left?.();
  }

  /** A sequence that waited for this one now waits for its predecessor, which may still have requests. */
  #leaveChain(sequence: ClientSequence): void {
    const { id, predecessor, successor } = sequence;
    if (predecessor !== undefined) predecessor.successor = successor;
    if (this.#ending.get(id) === sequence) {
      if (predecessor === undefined) this.#ending.delete(id);
      else this.#ending.set(id, predecessor);
    }
    if (successor === undefined) return;
    successor.predecessor = predecessor;
    this.#advance(successor);
  }

  /** A sequence is useless without one of its requests: all waiting ones fail, and it accepts no more. */
  #giveUp(sequence: ClientSequence, reason: (request: ScheduledRequest) => ServerError): void {
    const given = sequence.queue.splice(0);
    const lane = sequence.slot === undefined ? undefined : this.#laneOf(sequence.slot);
    this.#takeNoMore(sequence);
    if (!sequence.isRunning) this.#finish(sequence);
    for (const { request, unlisten } of given) {
      unlisten?.();
      request.fail(reason(request));
    }
    lane?.gaveUp();
  }

  #expire(sequence: ClientSequence): void {
    this.#options.log.verbose(1, "sequence", `sequence ${sequence.id} was idle for too long and is forgotten`);
    this.#takeNoMore(sequence);
    this.#finish(sequence);
  }

  #isFree({ slot }: ClientSequence): boolean {
    return slot !== undefined && this.#laneOf(slot).isFree;
  }

  #laneOf(slot: Slot): SequenceLane {
    const lane = this.#lanes.get(slot.lane);
    if (lane === undefined) throw new Error(`no instance ${slot.lane}`);
    return lane;
  }
}

/** The dynamic batcher of an instance with the oldest strategy waits until so many sequences are ready. */
function offersHeld(queued: number): ((offers: number) => boolean) | undefined {
  if (queued === 0) return undefined;
  let isOver = false;
  return (offers) => {
    isOver ||= offers >= queued;
    return !isOver;
  };
}

function slotsPerInstance(config: ModelConfig, { oldest }: ModelSequenceBatching): number {
  const rows = Math.max(1, config.max_batch_size);
  return oldest !== undefined && oldest.max_candidate_sequences > 0 ? oldest.max_candidate_sequences : rows;
}

function strategyOf(config: ModelConfig, { direct, oldest }: ModelSequenceBatching): SequenceStrategy {
  if (oldest === undefined) {
    return new DirectStrategy({
      slotCount: Math.max(1, config.max_batch_size),
      minimumUtilization: direct?.minimum_slot_utilization ?? 0,
      queueDelayMs: (direct?.max_queue_delay_microseconds ?? 0) / US_PER_MS,
    });
  }
  if (config.max_batch_size === 0) return new OldestStrategy(undefined);
  const preferred = [...oldest.preferred_batch_size].sort((a, b) => a - b);
  return new OldestStrategy({
    preferredSizes: preferred.length > 0 ? preferred : [config.max_batch_size],
    maxBatchSize: config.max_batch_size,
    queueDelayUs: oldest.max_queue_delay_microseconds,
  });
}
