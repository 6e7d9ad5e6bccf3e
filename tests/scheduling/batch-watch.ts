/**
 * Watches a default scheduler or dynamic batcher: who may be served next, what may share a batch, how long anybody may wait.
 * An account of its own, by the rules and not by the code.
 */
import type { Batch } from "../../server/src/backend/backend.ts";
import { isCancelled } from "../../server/src/core/infer-request.ts";
import type { ModelQueuePolicy } from "../../server/src/core/model-config.ts";
import type { ServerError } from "../../server/src/core/server-error.ts";
import type { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import type { ModelSpec } from "./model-spec.ts";
import type { PlayedInstance } from "./played-instance.ts";
import type { VirtualClock } from "./virtual-clock.ts";
import { type Faults, NEAR_MS, type Watch } from "./watch.ts";

const US_PER_MS = 1000;
/** Limit of a batch in the strategy of these models: the largest sum of the ids' last digits. */
export const STRATEGY_BUDGET = 12;

interface Waiting {
  readonly order: number;
  readonly request: ScheduledRequest;
  readonly level: number;
  readonly policy: ModelQueuePolicy | undefined;
  readonly deadlineMs: number;
  readonly key: string;
}

export interface BatchWatchParts {
  readonly name: string;
  readonly spec: ModelSpec;
  readonly clock: VirtualClock;
  readonly faults: Faults;
  /** As the scheduler was last told. */
  readonly instances: () => readonly PlayedInstance[];
  readonly isLimited: boolean;
}

export function weightOf(request: ScheduledRequest["request"]): number {
  return Number(request.id) % 10;
}

export class BatchWatch implements Watch {
  readonly #parts: BatchWatchParts;
  readonly #waiting = new Map<ScheduledRequest, Waiting>();
  #order = 0;

  constructor(parts: BatchWatchParts) {
    this.#parts = parts;
  }

  arriving(request: ScheduledRequest): void {
    const level = this.#levelOf(request);
    const batching = this.#parts.spec.config.dynamic_batching;
    const policy = batching?.priority_queue_policy[String(level)] ?? batching?.default_queue_policy;
    this.#order += 1;
    const deadlineMs = this.#parts.clock.nowMs() + timeoutMs(policy, request.request.timeoutUs);
    const key = keyOf(request, this.#parts.spec);
    this.#waiting.set(request, { order: this.#order, request, level, policy, deadlineMs, key });
  }

  refused(request: ScheduledRequest, error: ServerError): void {
    const one = this.#waiting.get(request);
    this.#waiting.delete(request);
    if (!error.message.endsWith("Exceeds maximum queue size")) return;
    const limit = one?.policy?.max_queue_size ?? 0;
    const length = this.#live().filter(({ level }) => level === one?.level).length;
    if (limit === 0 || length < limit) this.#fault(`refused a request with ${length} of ${limit} in the queue`);
  }

  started(instance: PlayedInstance, batch: Batch): void {
    const { instances, spec } = this.#parts;
    if (instance.isBusy) this.#fault("an instance got two batches at once");
    if (!instances().includes(instance)) this.#fault("an instance ran that had been taken out");
    const taken = (batch.requests as readonly ScheduledRequest[]).map((request) => this.#waiting.get(request));
    for (const one of taken) this.#judgeTaken(one);
    const batchOf = taken.filter((one) => one !== undefined);
    for (const { request } of batchOf) this.#waiting.delete(request);
    this.#judgeOrder(batchOf);
    this.#judgeBatch(batchOf, spec);
  }

  settled(): void {
    const waiting = this.#live();
    for (const [request, one] of this.#waiting) if (!waiting.includes(one)) this.#waiting.delete(request);
    const nowMs = this.#parts.clock.nowMs();
    for (const { request, policy, deadlineMs } of waiting) {
      const isLate = deadlineMs + NEAR_MS < nowMs && policy?.timeout_action === "REJECT";
      if (isLate) this.#fault(`request ${request.request.id} waits beyond its time`);
    }
    this.#judgeQueueLengths(waiting);
    if (!this.#parts.isLimited) this.judgeWaiting();
  }

  /** Nobody waits for longer than the delay while an instance is free. */
  judgeWaiting(): void {
    const { spec, instances } = this.#parts;
    const waiting = this.#live();
    if (waiting.length === 0 || !instances().some(({ isBusy }) => !isBusy)) return;
    const { dynamic_batching, max_batch_size } = spec.config;
    const delayMs = max_batch_size > 0 ? (dynamic_batching?.max_queue_delay_microseconds ?? 0) / US_PER_MS : 0;
    const waitedMs = this.#parts.clock.nowMs() - Math.min(...waiting.map(({ request }) => request.queuedMs));
    if (waitedMs >= delayMs + NEAR_MS) this.#fault(`a wait of ${waitedMs} ms beside a free instance`);
  }

  #judgeTaken(one: Waiting | undefined): void {
    if (one === undefined) {
      this.#fault("a request ran that did not wait");
      return;
    }
    const { id } = one.request.request;
    if (isCancelled(one.request.request)) this.#fault(`request ${id} ran though it had been cancelled`);
    const isLate = one.deadlineMs + NEAR_MS < this.#parts.clock.nowMs();
    if (isLate && one.policy?.timeout_action === "REJECT") this.#fault(`request ${id} ran though its time was over`);
  }

  /** The batch is the head of the queue, in its order. */
  #judgeOrder(taken: readonly Waiting[]): void {
    for (const [i, one] of taken.entries()) {
      for (const other of [...taken.slice(i + 1), ...this.#live()]) {
        if (!this.#isBefore(other, one)) continue;
        this.#fault(`request ${one.request.request.id} was served before ${other.request.request.id}`);
      }
    }
  }

  #judgeBatch(taken: readonly Waiting[], { config, hasStrategy }: ModelSpec): void {
    const rows = taken.reduce((sum, { request }) => sum + request.batchSize, 0);
    const batches = config.dynamic_batching !== undefined && config.max_batch_size > 0;
    if (!batches && taken.length !== 1) this.#fault(`a batch of ${taken.length} without dynamic batching`);
    if (rows > Math.max(1, config.max_batch_size)) this.#fault(`a batch of ${rows} rows`);
    if (new Set(taken.map(({ key }) => key)).size > 1) this.#fault("different shapes in one batch");
    const weight = taken.reduce((sum, { request }) => sum + weightOf(request.request), 0);
    if (hasStrategy && batches && taken.length > 1 && weight > STRATEGY_BUDGET) {
      this.#fault("a batch that the model's strategy refuses");
    }
  }

  #judgeQueueLengths(waiting: readonly Waiting[]): void {
    for (const { level, policy } of waiting) {
      const limit = policy?.max_queue_size ?? 0;
      const length = waiting.filter((other) => other.level === level).length;
      if (limit > 0 && length > limit) this.#fault(`${length} wait in a queue for ${limit}`);
    }
  }

  #isBefore(one: Waiting, other: Waiting): boolean {
    if (one.level !== other.level) return one.level < other.level;
    const nowMs = this.#parts.clock.nowMs();
    const [a, b] = [one, other].map(({ deadlineMs, policy }) => {
      if (policy?.timeout_action !== "DELAY" || deadlineMs > nowMs + NEAR_MS) return "timely";
      return deadlineMs < nowMs - NEAR_MS ? "delayed" : "unsure";
    });
    if (a === "unsure" || b === "unsure") return false;
    if (a !== b) return a === "timely";
    return a === "timely" ? one.order < other.order : one.deadlineMs < other.deadlineMs - NEAR_MS;
  }

  #live(): Waiting[] {
    return [...this.#waiting.values()].filter(({ request }) => !request.ended && !isCancelled(request.request));
  }

  #levelOf({ request: { priority } }: ScheduledRequest): number {
    const { priority_levels: levels = 0, default_priority_level = 0 } = this.#parts.spec.config.dynamic_batching ?? {};
    if (levels === 0) return 1;
    return priority === 0 || priority > levels ? default_priority_level : priority;
  }

  #fault(text: string): void {
    this.#parts.faults.add(`${this.#parts.name} at ${this.#parts.clock.nowMs()} ms: ${text}`);
  }
}

function timeoutMs(policy: ModelQueuePolicy | undefined, requestUs: number): number {
  const ownUs = policy?.default_timeout_microseconds ?? 0;
  if (policy === undefined || ownUs === 0) return Number.POSITIVE_INFINITY;
  return (policy.allow_timeout_override && requestUs > 0 ? Math.min(requestUs, ownUs) : ownUs) / US_PER_MS;
}

function keyOf({ request: { inputs } }: ScheduledRequest, { config, hasOptional }: ModelSpec): string {
  const isRagged = config.input[0]?.allow_ragged_batch === true;
  const width = inputs.find(({ name }) => name === "X")?.shape.at(-1);
  const hasZ = inputs.some(({ name }) => name === "Z");
  return `${isRagged ? "" : width}${hasOptional ? hasZ : ""}`;
}
