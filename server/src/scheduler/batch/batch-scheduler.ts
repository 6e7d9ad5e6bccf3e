/**
 * The default scheduler and the dynamic batcher: one queue, several instances. Source: Triton documentation,
 * "Schedulers". Without dynamic batching each request is a batch of its own. batch-decision.ts forms the batches.
 */
import type { ModelInstance } from "../../backend/backend.ts";
import type { BatchStrategy } from "../../core/batch-strategy.ts";
import type { RequestOrigin } from "../../core/infer-request.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { ModelSignature } from "../../core/model-signature.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { Logger } from "../../observe/log.ts";
import { answerNow } from "../answer-now.ts";
import { type Alarm, type Clock, SYSTEM_CLOCK } from "../clock.ts";
import { EventLoopGate } from "../event-loop-gate.ts";
import { execute } from "../execution.ts";
import type { ExecutionTiming } from "../execution-timing.ts";
import { InFlight, stopping } from "../in-flight.ts";
import { type InstanceLimits, InstancePool } from "../instance-pool.ts";
import type { StatisticsCounter } from "../model-statistics.ts";
import { prepareShortWaits } from "../precise-timer.ts";
import { RequestQueue } from "../request-queue.ts";
import { ResponseOrder } from "../response-order.ts";
import type { ScheduledRequest } from "../scheduled-request.ts";
import type { LeavingInstance, Scheduler } from "../scheduler.ts";
import { NO_HOLD, type StartHold } from "../start-hold.ts";
import { SingleClientTraffic, usesAdaptiveDelay } from "./adaptive-batching-delay.ts";
import { type BatchCandidate, type BatchRules, decideBatch } from "./batch-decision.ts";
import { batchKeyOf } from "./batch-key.ts";

const US_PER_MS = 1000;
/** Key of a request that must not share a batch. */
const REFUSED = "\0";

interface Decision {
  readonly take: number;
  readonly waitMs: number;
}

const ONE_NOW: Decision = { take: 1, waitMs: 0 };

export interface BatchSchedulerOptions {
  readonly config: ModelConfig;
  readonly signature: ModelSignature;
  readonly instances: readonly ModelInstance[];
  readonly statistics: StatisticsCounter;
  readonly log: Logger;
  /** Set when executions wait for resources. */
  readonly limits?: InstanceLimits | undefined;
  /** The model's own batching strategy. */
  readonly strategy?: BatchStrategy | undefined;
  readonly clock?: Clock | undefined;
  /** Absent: batches start at once. */
  readonly hold?: StartHold | undefined;
}

export class BatchScheduler implements Scheduler {
  readonly #options: BatchSchedulerOptions;
  readonly #queue: RequestQueue;
  readonly #pool: InstancePool;
  /** Undefined = every request goes alone. */
  readonly #rules: BatchRules | undefined;
  readonly #keyOf: (request: ScheduledRequest["request"]) => string;
  readonly #clock: Clock;
  readonly #timer: Alarm;
  /** Undefined where no request ever shares a batch. */
  readonly #gate: EventLoopGate | undefined;
  /** Undefined: no adaptive delay; a single request waits, too. */
  readonly #singleClient: SingleClientTraffic | undefined;
  readonly #decoupled: boolean;
  /** Undefined = responses may leave in any order. */
  readonly #order: ResponseOrder | undefined;
  readonly #inFlight = new InFlight();
  /** No request waits for others, and tensors are those of the client. */
  readonly #answersNow: boolean;
  #isPumping = false;
  /** No batch starts before so many requests wait; 0 from then on. */
  #heldUntil: number;

  constructor(options: BatchSchedulerOptions) {
    const { config } = options;
    this.#options = options;
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#timer = this.#clock.alarm(() => this.#pump());
    this.#queue = new RequestQueue(config.dynamic_batching);
    this.#pool = new InstancePool(options.instances, options.limits, () => this.#pump());
    this.#rules = batchRules(config);
    if (config.max_batch_size > 1 && this.#rules !== undefined) {
      this.#gate = new EventLoopGate(this.#clock, () => this.#pump());
    }
    if (this.#rules !== undefined && this.#rules.queueDelayUs > 0) prepareShortWaits();
    if (options.strategy === undefined && usesAdaptiveDelay(config)) this.#singleClient = new SingleClientTraffic();
    this.#keyOf = batchKeyOf(options.signature);
    this.#heldUntil = this.#rules === undefined ? 0 : (options.hold ?? NO_HOLD).queued;
    this.#decoupled = config.model_transaction_policy?.decoupled ?? false;
    this.#order = config.dynamic_batching?.preserve_ordering === true ? new ResponseOrder() : undefined;
    this.#answersNow = config.dynamic_batching === undefined && options.limits === undefined && !reshapes(config);
  }

  get inFlight(): number {
    return this.#inFlight.count;
  }

  enqueue(request: ScheduledRequest): void {
    if (this.#inFlight.isStopping) {
      request.refused();
      throw stopping();
    }
    try {
      this.#queue.push(request, request.queuedMs);
    } catch (error) {
      request.refused();
      throw error;
    }
    const isFirstOfTurn = this.#gate === undefined || this.#gate.pass();
    this.#singleClient?.arrived(isFirstOfTurn && this.#inFlight.count === 0);
    this.#inFlight.begin();
    this.#order?.add(request);
    request.onEnd = () => this.#ended();
    if (isFirstOfTurn) this.#pump();
  }

  runNow(
    inputs: readonly Tensor[],
    origin: RequestOrigin,
    onTiming: (timing: ExecutionTiming) => void,
  ): readonly Tensor[] | undefined {
    if (!this.#answersNow || this.#inFlight.isStopping || this.#queue.length > 0) return undefined;
    const instance = this.#pool.peek();
    const { statistics } = this.#options;
    return instance && answerNow(instance, { inputs, origin }, { statistics, clock: this.#clock, onTiming });
  }

  resize(instances: readonly ModelInstance[]): readonly LeavingInstance[] {
    const left = this.#pool.replace(instances);
    this.#pump();
    return left;
  }

  drain(): Promise<void> {
    return this.#inFlight.drain();
  }

  /** Dispatches batches to free instances. Not reentrant: a synchronous execution returns here. */
  #pump(): void {
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#dispatchOne()) {
        // each pass starts one batch
      }
    } finally {
      this.#isPumping = false;
    }
  }

  #dispatchOne(): boolean {
    if (this.#queue.length === 0) return this.#pause(Number.POSITIVE_INFINITY);
    if (this.#queue.length < this.#heldUntil) return this.#pause(Number.POSITIVE_INFINITY);
    this.#heldUntil = 0;
    const nowMs = this.#clock.nowMs();
    this.#queue.sweep(nowMs);
    if (this.#queue.length === 0 || !this.#pool.hasIdle) {
      return this.#pause(this.#queue.length === 0 ? Number.POSITIVE_INFINITY : this.#queue.nextSweepMs);
    }
    const { take, waitMs } = this.#decide(nowMs);
    if (take === 0) {
      if (waitMs === Number.POSITIVE_INFINITY) this.#queue.take(1); // all waiting requests were cancelled
      return this.#pause(Math.min(nowMs + waitMs, this.#queue.nextSweepMs));
    }
    if (!this.#pool.admit()) {
      this.#timer.set(this.#queue.nextSweepMs);
      return false;
    }
    const requests = this.#queue.take(take);
    if (requests.length > 0) this.#run(requests);
    return true;
  }

  /** Nothing can start before something changes, or before `untilMs`. */
  #pause(untilMs: number): false {
    this.#pool.forgo();
    this.#timer.set(untilMs);
    return false;
  }

  #decide(nowMs: number): Decision {
    if (this.#rules === undefined) return ONE_NOW;
    if (this.#singleClient?.isDelayInVain === true && this.#queue.length === 1) return ONE_NOW;
    const keyOf = this.#keyOf;
    const queue = this.#queue;
    const judge = this.#options.strategy?.startBatch();
    function* candidates(): Generator<BatchCandidate> {
      let isFirst = true;
      for (const { request, batchSize, queuedMs } of queue) {
        const joins = judge === undefined || judge(request, batchSize) || isFirst;
        isFirst = false;
        const waitedUs = (nowMs - queuedMs) * US_PER_MS;
        yield { rows: batchSize, key: joins ? keyOf(request) : REFUSED, waitedUs };
      }
    }
    const { take, waitUs } = decideBatch(candidates(), this.#rules);
    return { take, waitMs: waitUs / US_PER_MS };
  }

  #run(requests: readonly ScheduledRequest[]): void {
    const instance = this.#pool.acquire();
    if (instance === undefined) throw new Error("a batch was formed without a free instance");
    const { statistics, log } = this.#options;
    const running = execute({ instance, requests, statistics, decoupled: this.#decoupled, log, clock: this.#clock });
    if (running === undefined) this.#pool.release(instance, this.#askAgain);
    else void running.then(() => this.#free(instance));
  }

  #free(instance: ModelInstance): void {
    this.#pool.release(instance, this.#askAgain);
    this.#pump();
  }

  /** Under limited resources: the next batch asks for its instance before other models get what is free. */
  readonly #askAgain = (): void => {
    if (this.#queue.length > 0) this.#pool.admit();
  };

  #ended(): void {
    this.#order?.ended();
    this.#inFlight.end();
  }
}

function reshapes({ input, output }: ModelConfig): boolean {
  return [...input, ...output].some(({ reshape }) => reshape !== undefined);
}

/** As in Triton, dynamic batching has no effect on a model without a batch dimension. */
function batchRules(config: ModelConfig): BatchRules | undefined {
  const batching = config.dynamic_batching;
  if (batching === undefined || config.max_batch_size === 0) return undefined;
  return {
    preferredSizes: [...batching.preferred_batch_size].sort((a, b) => a - b),
    maxBatchSize: config.max_batch_size,
    queueDelayUs: batching.max_queue_delay_microseconds,
  };
}
