/**
 * Latency summaries and the first-response histogram of one model version (Triton documentation, "Metrics"). Created
 * only when `--metrics-config` requests them.
 */
import { SlidingSummary } from "../observe/sliding-summary.ts";
import type { ExecutionTiming } from "./execution-timing.ts";

const US_PER_MS = 1000;

const OF_EACH = ["request", "queue", "compute_input", "compute_infer", "compute_output"] as const;
const OF_CACHE = ["cache_hit", "cache_miss"] as const;

export type SummaryName = (typeof OF_EACH)[number] | (typeof OF_CACHE)[number];

export interface LatencyOptions {
  readonly summaries: boolean;
  /** The model asks for the response cache. */
  readonly isCached?: boolean;
  /** Upper bounds in ms, ascending; empty = no histogram. */
  readonly firstResponseBucketsMs: readonly number[];
}

export class LatencyObserver {
  readonly summaries: ReadonlyMap<SummaryName, SlidingSummary>;
  readonly firstResponseBucketsMs: readonly number[];
  /** Observations per bound, not cumulative; the last one counts values above all bounds. */
  readonly #buckets: number[];
  #numFirst = 0;
  #sumFirstMs = 0;

  constructor({ summaries, isCached = false, firstResponseBucketsMs }: LatencyOptions) {
    const nowMs = performance.now();
    const names: readonly SummaryName[] = isCached ? [...OF_EACH, ...OF_CACHE] : OF_EACH;
    this.summaries = new Map(summaries ? names.map((name) => [name, new SlidingSummary(nowMs)]) : []);
    this.firstResponseBucketsMs = firstResponseBucketsMs;
    this.#buckets = new Array<number>(firstResponseBucketsMs.length + 1).fill(0);
  }

  succeeded(totalMs: number, queueMs: number, timing: ExecutionTiming): void {
    const nowMs = performance.now();
    this.#observe("request", totalMs, nowMs);
    this.#observe("queue", queueMs, nowMs);
    this.#observe("compute_input", timing.computeStartMs - timing.startMs, nowMs);
    this.#observe("compute_infer", timing.computeEndMs - timing.computeStartMs, nowMs);
    this.#observe("compute_output", timing.endMs - timing.computeEndMs, nowMs);
  }

  cacheHit(queueMs: number, lookupMs: number): void {
    const nowMs = performance.now();
    this.#observe("queue", queueMs, nowMs);
    this.#observe("cache_hit", lookupMs, nowMs);
  }

  cacheMissed(ms: number): void {
    this.#observe("cache_miss", ms, performance.now());
  }

  firstResponse(ms: number): void {
    const at = this.firstResponseBucketsMs.findIndex((bound) => ms <= bound);
    const bucket = at < 0 ? this.#buckets.length - 1 : at;
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1;
    this.#numFirst += 1;
    this.#sumFirstMs += ms;
  }

  /** Cumulative counts by upper bound, Infinity last. */
  firstResponses(): {
    readonly cumulative: readonly (readonly [boundMs: number, count: number])[];
    readonly sumMs: number;
    readonly count: number;
  } {
    let total = 0;
    const bounds = [...this.firstResponseBucketsMs, Number.POSITIVE_INFINITY];
    const cumulative = bounds.map((bound, i) => {
      total += this.#buckets[i] ?? 0;
      return [bound, total] as const;
    });
    return { cumulative, sumMs: this.#sumFirstMs, count: this.#numFirst };
  }
  /** Parts of a microsecond are dropped. */
  #observe(name: SummaryName, ms: number, nowMs: number): void {
    this.summaries.get(name)?.observe(Math.floor(ms * US_PER_MS), nowMs);
  }
}
