/** One instance and the sequences bound to it: forms batches by its strategy and runs one at a time. */
import type { ModelInstance } from "../../backend/backend.ts";
import { type InferRequest, isCancelled } from "../../core/infer-request.ts";
import type { Logger } from "../../observe/log.ts";
import type { Alarm, Clock } from "../clock.ts";
import { EventLoopGate } from "../event-loop-gate.ts";
import { type ExecutableRequest, execute } from "../execution.ts";
import { type InstanceLimits, InstancePool } from "../instance-pool.ts";
import type { StatisticsCounter } from "../model-statistics.ts";
import { ResponseOrder } from "../response-order.ts";
import type { SequenceFeed } from "./feed.ts";
import type { ClientSequence, QueuedRequest } from "./sequence.ts";
import type { SequenceStrategy } from "./strategy.ts";

export interface SequenceLaneOptions {
  readonly instance: ModelInstance;
  readonly strategy: SequenceStrategy;
  readonly feed: SequenceFeed;
  readonly keyOf: (request: InferRequest) => string;
  readonly statistics: StatisticsCounter;
  readonly decoupled: boolean;
  readonly preserveOrdering: boolean;
  /** Several sequences may share a batch. */
  readonly isBatching: boolean;
  readonly log: Logger;
  /** Set when executions wait for resources. */
  readonly limits?: InstanceLimits | undefined;
  readonly clock: Clock;
  /** True while no batch may start; gets the number of pending sequences. Undefined: batches start at once. */
  readonly isHeld: ((offers: number) => boolean) | undefined;
  /** The running request of the sequence is done. */
  readonly onDone: (sequence: ClientSequence) => void;
  /** The pending request of the sequence was withdrawn. */
  readonly onCancelled: (sequence: ClientSequence) => void;
  /** The running request of the sequence is to run again; absent when that is not allowed. */
  readonly onGivenBack: ((sequence: ClientSequence, request: QueuedRequest) => void) | undefined;
}

export class SequenceLane {
  readonly #options: SequenceLaneOptions;
  readonly #timer: Alarm;
  /** Undefined where no sequences ever share a batch. */
  readonly #gate: EventLoopGate | undefined;
  readonly #order: ResponseOrder | undefined;
  /** Holds the one instance. */
  readonly #pool: InstancePool;
  #running: Promise<void> | undefined;
  #isPumping = false;

  constructor(options: SequenceLaneOptions) {
    this.#options = options;
    this.#timer = options.clock.alarm(() => this.#pump());
    this.#pool = new InstancePool([options.instance], options.limits, () => this.#pump());
    this.#gate = options.isBatching ? new EventLoopGate(options.clock, () => this.#pump()) : undefined;
    this.#order = options.preserveOrdering ? new ResponseOrder() : undefined;
  }

  get instance(): ModelInstance {
    return this.#options.instance;
  }

  enter(sequence: ClientSequence): void {
    this.#options.strategy.enter(sequence);
  }

  leave(sequence: ClientSequence): void {
    this.#options.strategy.leave(sequence);
    if (!this.#options.strategy.hasOffers) this.#pool.forgo();
  }

  /** Requests ended without a further execution, which may have held others back. */
  gaveUp(): void {
    this.#order?.ended();
  }

  /** The hold is over. */
  resume(): void {
    this.#pump();
  }

  /** True: pending requests start at the end of this event loop turn. */
  get isFree(): boolean {
    const { limits, strategy, isHeld } = this.#options;
    if (isHeld?.(strategy.offered().length) === true) return false;
    return this.#running === undefined && limits === undefined && !strategy.mayDelay;
  }

  /** The head of the sequence's queue may run from now on. */
  offer(sequence: ClientSequence): void {
    const [head] = sequence.queue;
    if (head === undefined || sequence.isOffered) return;
    sequence.key = this.#keyOf(head, sequence);
    sequence.offeredMs = this.#options.clock.nowMs();
    this.#options.strategy.offer(sequence);
    if (this.#gate === undefined || this.#gate.pass()) this.#pump();
  }

  /** Resolves when no execution runs. */
  async settled(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
  }

  #keyOf({ request: { request }, flags }: QueuedRequest, { state }: ClientSequence): string {
    const { keyOf, feed } = this.#options;
    if (state === undefined || !feed.hasVariableStates) return keyOf(request);
    if (flags.start) state.reset();
    return `${keyOf(request)}|${state.inputs.map(({ shape }) => shape.join("x")).join(";")}`;
  }

  /** Not reentrant: a synchronous execution returns here. */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#running === undefined && this.#dispatchOne()) {
        // each pass starts one batch
      }
    } finally {
      this.#isPumping = false;
    }
  }

  #dispatchOne(): boolean {
    const { strategy, statistics, decoupled, log, clock, isHeld } = this.#options;
    this.#dropCancelled();
    if (isHeld?.(strategy.offered().length) === true) return false;
    if (strategy.hasOffers && !this.#pool.admit()) return false;
    const nowMs = this.#options.clock.nowMs();
    const { rows, waitMs } = strategy.next(nowMs);
    if (rows.length === 0) {
      this.#pool.forgo();
      this.#timer.set(nowMs + waitMs);
      return false;
    }
    const instance = this.#pool.acquire();
    if (instance === undefined) throw new Error("a batch was formed without a free instance");
    const running = execute({ instance, requests: this.#requests(rows), statistics, decoupled, log, clock });
    if (running === undefined) this.#pool.release(instance, this.#askAgain);
    else this.#running = running.then(() => this.#free(instance));
    return true;
  }

  #dropCancelled(): void {
    const { strategy, onCancelled } = this.#options;
    const isUnwanted = ({ queue: [head] }: ClientSequence): boolean =>
      head !== undefined && isCancelled(head.request.request);
    const cancelled = strategy.offered().filter(isUnwanted);
    for (const sequence of cancelled) onCancelled(sequence);
  }

  #free(instance: ModelInstance): void {
    this.#running = undefined;
    this.#pool.release(instance, this.#askAgain);
    this.#pump();
  }

  readonly #askAgain = (): void => {
    if (this.#options.strategy.hasOffers) this.#pool.admit();
  };

  #requests(rows: readonly (ClientSequence | undefined)[]): readonly ExecutableRequest[] {
    const real = rows.map((sequence) => (sequence === undefined ? undefined : this.#take(sequence)));
    const like = real.find((request) => request !== undefined);
    if (like === undefined) throw new Error("a batch was formed without a request");
    if (!real.includes(undefined)) return real as readonly ExecutableRequest[];
    const empty = this.#options.feed.nullRequest(like);
    return real.map((request) => request ?? empty);
  }

  #take(sequence: ClientSequence): ExecutableRequest {
    const head = sequence.queue.shift();
    if (head === undefined) throw new Error(`sequence ${sequence.id} was put in a batch without a request`);
    head.unlisten?.();
    sequence.isRunning = true;
    if (!head.isAgain) this.#order?.add(head.request);
    const { feed, onDone, onGivenBack } = this.#options;
    const done = (): void => {
      sequence.isRunning = false;
      this.#order?.ended();
      onDone(sequence);
    };
    const givenBack = (): void => {
      sequence.isRunning = false;
      onGivenBack?.(sequence, head);
    };
    const listener = onGivenBack === undefined ? { onDone: done } : { onDone: done, onGivenBack: givenBack };
    return feed.request(head.request, head.flags, sequence.state, listener);
  }
}
