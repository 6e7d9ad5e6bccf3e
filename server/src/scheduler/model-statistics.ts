/**
 * The counters of one model version, by the rules of Triton's statistics extension. Successes and failures count per
 * request, compute times per request and per execution, batches by size. Written by schedulers, read by the statistics
 * API and the metrics page. Input: milliseconds of `performance.now()`; stored: nanoseconds.
 */
import type { ResponseReport } from "../backend/backend.ts";
import type { InferBatchStatistics, ModelStatistics } from "../core/model-server.ts";
import type { FailureReason } from "../core/server-error.ts";

import { Duration } from "./duration.ts";
import type { ExecutionTiming } from "./execution-timing.ts";
import type { LatencyObserver } from "./latency-observer.ts";
import { ResponseStatistics } from "./response-statistics.ts";

class ComputeDurations {
  readonly input: Duration = new Duration();
  readonly infer: Duration = new Duration();
  readonly output: Duration = new Duration();

  add(timing: ExecutionTiming): void {
    this.input.add(timing.computeStartMs - timing.startMs);
    this.infer.add(timing.computeEndMs - timing.computeStartMs);
    this.output.add(timing.endMs - timing.computeEndMs);
  }
}

export class StatisticsCounter {
  /** Set when distributions are requested, not only sums. */
  readonly latencies: LatencyObserver | undefined;
  #lastInferenceMs = 0;
  #inferences = 0;
  #executions = 0;
  /** Requests accepted and not yet given to the backend. */
  #pending = 0;
  readonly #success = new Duration();
  readonly #fail = new Duration();
  readonly #queue = new Duration();
  readonly #cacheHit = new Duration();
  readonly #cacheMiss = new Duration();
  readonly #compute = new ComputeDurations();
  readonly #batches = new Map<number, ComputeDurations>();
  readonly #responses = new ResponseStatistics();
  readonly #failures: Record<FailureReason, number> = { REJECTED: 0, CANCELED: 0, BACKEND: 0, OTHER: 0 };

  constructor(latencies?: LatencyObserver) {
    this.latencies = latencies;
  }

  get pending(): number {
    return this.#pending;
  }

  get failures(): Readonly<Record<FailureReason, number>> {
    return this.#failures;
  }

  /** A request was accepted. `dequeued` and then `succeeded` or `failed` follow. */
  accepted(): void {
    this.#pending += 1;
    this.#lastInferenceMs = Date.now();
  }

  /** The request left the queue, for the backend or by refusal. */
  dequeued(): void {
    this.#pending -= 1;
  }

  executed(batchSize: number, timing: ExecutionTiming): void {
    this.#executions += 1;
    let batch = this.#batches.get(batchSize);
    if (batch === undefined) {
      batch = new ComputeDurations();
      this.#batches.set(batchSize, batch);
    }
    batch.add(timing);
  }

  /** A request of `batchSize` rows succeeded: total duration, queue time, and the timing of its execution. */
  succeeded(batchSize: number, totalMs: number, queueMs: number, timing: ExecutionTiming): void {
    this.#inferences += batchSize;
    this.#success.add(totalMs);
    this.#queue.add(queueMs);
    this.#compute.add(timing);
    this.latencies?.succeeded(totalMs, queueMs, timing);
  }

  /** Answered from the cache: a success with queue time and no execution. */
  cacheHit(totalMs: number, queueMs: number, lookupMs: number): void {
    this.#success.add(totalMs);
    this.#queue.add(queueMs);
    this.#cacheHit.add(lookupMs);
    this.latencies?.cacheHit(queueMs, lookupMs);
  }

  /** A cache miss: time for lookup and insertion. */
  cacheMissed(ms: number): void {
    this.#cacheMiss.add(ms);
    this.latencies?.cacheMissed(ms);
  }

  /** A response of a stream; `place`: 0 for the first of its request. */
  responded(place: number, report: ResponseReport): void {
    this.#responses.add(place, report);
  }

  failed(reason: FailureReason, totalMs: number): void {
    this.#failures[reason] += 1;
    this.#fail.add(totalMs);
  }

  /** Refused before queueing (full queue): a rejected failure on the metrics page, not in the statistics. */
  rejected(): void {
    this.#failures.REJECTED += 1;
  }

  snapshot(name: string, version: string): ModelStatistics {
    return {
      name,
      version,
      last_inference: this.#lastInferenceMs,
      inference_count: this.#inferences,
      execution_count: this.#executions,
      inference_stats: {
        success: this.#success.snapshot(),
        fail: this.#fail.snapshot(),
        queue: this.#queue.snapshot(),
        compute_input: this.#compute.input.snapshot(),
        compute_infer: this.#compute.infer.snapshot(),
        compute_output: this.#compute.output.snapshot(),
        cache_hit: this.#cacheHit.snapshot(),
        cache_miss: this.#cacheMiss.snapshot(),
      },
      response_stats: this.#responses.snapshot(),
      batch_stats: [...this.#batches].sort(([a], [b]) => a - b).map(([size, durations]) => batchRow(size, durations)),
      memory_usage: [],
    };
  }
}

function batchRow(batchSize: number, durations: ComputeDurations): InferBatchStatistics {
  return {
    batch_size: batchSize,
    compute_input: durations.input.snapshot(),
    compute_infer: durations.infer.snapshot(),
    compute_output: durations.output.snapshot(),
  };
}
