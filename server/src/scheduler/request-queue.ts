/**
 * The queue of one model version: levels by priority; in each level, requests within their timeout come before delayed
 * ones. Applies the size limits and timeouts of queue policies (model_config.proto, ModelQueuePolicy). Forms no
 * batches.
 */

import { isCancelled } from "../core/infer-request.ts";
import { uint64Text } from "../core/json-object.ts";
import type { ModelDynamicBatching, ModelQueuePolicy } from "../core/model-config.ts";
import { ServerError } from "../core/server-error.ts";
import { requestPrefix } from "../core/validate-request.ts";
import type { ScheduledRequest } from "./scheduled-request.ts";

const US_PER_MS = 1000;

interface Waiting {
  readonly request: ScheduledRequest;
  /** Infinity = no timeout. */
  readonly deadlineMs: number;
}

class Level {
  /** 1 is served first. */
  readonly number: number;
  readonly policy: ModelQueuePolicy | undefined;
  timely: Waiting[] = [];
  delayed: Waiting[] = [];

  constructor(number: number, policy: ModelQueuePolicy | undefined) {
    this.number = number;
    this.policy = policy;
  }

  get length(): number {
    return this.timely.length + this.delayed.length;
  }
}

/**
 * How often requests are removed whose clients have left. They hold their tensors, and an instance may be busy for minutes.
 */
const CANCELLED_SWEEP_MS = 1000;

/**
 * A configuration may allow 2^64 levels, and clients choose among them: empty levels beyond this number are removed.
 */
const MAX_EMPTY_LEVELS = 32;

export class RequestQueue {
  readonly #batching: ModelDynamicBatching | undefined;
  readonly #numLevels: number;
  readonly #defaultLevel: number;
  /** Levels in use, in the order of service. */
  #levels: Level[] = [];
  #length = 0;
  /** No request times out before this; Infinity: none has a timeout. */
  #nextDeadlineMs = Number.POSITIVE_INFINITY;
  /** While requests wait: when those of clients that left are looked for. */
  #nextCancelledSweepMs = Number.POSITIVE_INFINITY;

  constructor(batching: ModelDynamicBatching | undefined) {
    this.#batching = batching;
    this.#numLevels = Math.max(1, batching?.priority_levels ?? 0);
    this.#defaultLevel = Math.max(1, batching?.default_priority_level ?? 1);
  }

  get length(): number {
    return this.#length;
  }

  /** Adds a request. @throws ServerError unavailable when its level is full */
  push(request: ScheduledRequest, nowMs: number): void {
    const { priority } = request.request;
    const level = this.#level(priority >= 1 && priority <= this.#numLevels ? priority : this.#defaultLevel);
    const limit = level.policy?.max_queue_size ?? 0;
    if (limit > 0 && level.length >= limit && !this.#dropCancelled(level)) {
      const text = `${requestPrefix(request.request)}Exceeds maximum queue size`;
      throw new ServerError("unavailable", text, { reason: "REJECTED" });
    }
    const deadlineMs = deadline(level.policy, request.request.timeoutUs, nowMs);
    this.#nextDeadlineMs = Math.min(this.#nextDeadlineMs, deadlineMs);
    level.timely.push({ request, deadlineMs });
    if (this.#length === 0) this.#nextCancelledSweepMs = nowMs + CANCELLED_SWEEP_MS;
    this.#length += 1;
  }

  #level(number: number): Level {
    const at = this.#levels.findIndex((level) => level.number >= number);
    const known = this.#levels[at];
    if (known?.number === number) return known;
    const batching = this.#batching;
    const policy = batching?.priority_queue_policy[uint64Text(number)] ?? batching?.default_queue_policy;
    const level = new Level(number, policy);
    if (this.#levels.length >= MAX_EMPTY_LEVELS) this.#levels = this.#levels.filter(({ length }) => length > 0);
    this.#levels.push(level);
    this.#levels.sort((a, b) => a.number - b.number);
    return level;
  }

  /** Removes timed-out requests, and now and then those whose clients have left; levels with action DELAY move them behind the others. */
  sweep(nowMs: number): void {
    if (nowMs >= this.#nextCancelledSweepMs) {
      this.#nextCancelledSweepMs = nowMs + CANCELLED_SWEEP_MS;
      for (const level of this.#levels) this.#dropCancelled(level);
    }
    if (nowMs < this.#nextDeadlineMs) return;
    this.#nextDeadlineMs = Number.POSITIVE_INFINITY;
    for (const level of this.#levels) this.#expire(level, nowMs);
  }

  /** In the order of service, without cancelled requests. */
  *[Symbol.iterator](): Generator<ScheduledRequest> {
    for (const level of this.#levels) {
      for (const { request } of level.timely) if (!isCancelled(request.request)) yield request;
      for (const { request } of level.delayed) if (!isCancelled(request.request)) yield request;
    }
  }

  /** Removes the first `count` in the order of service. Cancelled ones before them end here. */
  take(count: number): ScheduledRequest[] {
    const taken: ScheduledRequest[] = [];
    const dropped: ScheduledRequest[] = [];
    for (const level of this.#levels) {
      for (const list of [level.timely, level.delayed]) {
        let walked = 0;
        for (; walked < list.length && taken.length < count; walked += 1) {
          const request = list[walked]?.request as ScheduledRequest;
          (isCancelled(request.request) ? dropped : taken).push(request);
        }
        if (walked > 0) list.splice(0, walked);
      }
    }
    this.#length -= taken.length + dropped.length;
    for (const request of dropped) request.fail(cancelled(request));
    return taken;
  }

  /** When `sweep()` may find something to remove, in ms; Infinity: never. */
  get nextSweepMs(): number {
    return this.#length === 0 ? Number.POSITIVE_INFINITY : Math.min(this.#nextDeadlineMs, this.#nextCancelledSweepMs);
  }

  /** True when there were any. */
  #dropCancelled(level: Level): boolean {
    const dropped = [...level.timely, ...level.delayed].filter(({ request }) => isCancelled(request.request));
    if (dropped.length === 0) return false;
    level.timely = level.timely.filter(({ request }) => !isCancelled(request.request));
    level.delayed = level.delayed.filter(({ request }) => !isCancelled(request.request));
    this.#length -= dropped.length;
    for (const { request } of dropped) request.fail(cancelled(request));
    return true;
  }

  #expire(level: Level, nowMs: number): void {
    const late = level.timely.filter(({ deadlineMs }) => deadlineMs <= nowMs);
    if (late.length > 0) level.timely = level.timely.filter(({ deadlineMs }) => deadlineMs > nowMs);
    for (const { deadlineMs } of level.timely) this.#nextDeadlineMs = Math.min(this.#nextDeadlineMs, deadlineMs);
    if (level.policy?.timeout_action === "DELAY") {
      level.delayed.push(...late.map(({ request }) => ({ request, deadlineMs: Number.POSITIVE_INFINITY })));
      return;
    }
    this.#length -= late.length;
    for (const { request } of late) {
      const how = { reason: "REJECTED", wasQueued: true } as const;
      request.fail(new ServerError("unavailable", "Request timeout expired", how));
    }
  }
}

/** The error for a request cancelled before it ran. */
export function cancelled(request: ScheduledRequest): ServerError {
  return new ServerError("cancelled", `${requestPrefix(request.request)}Request was cancelled`, { reason: "CANCELED" });
}

/** A request's own timeout can only shorten the queue's, and only when the policy allows it. */
function deadline(policy: ModelQueuePolicy | undefined, timeoutUs: number, nowMs: number): number {
  const defaultUs = policy?.default_timeout_microseconds ?? 0;
  if (policy === undefined || defaultUs === 0) return Number.POSITIVE_INFINITY;
  const override = policy.allow_timeout_override && timeoutUs > 0 && timeoutUs < defaultUs;
  return nowMs + (override ? timeoutUs : defaultUs) / US_PER_MS;
}
