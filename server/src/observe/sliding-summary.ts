/**
 * Quantiles over the last minute in bounded memory: geometric buckets (growth 1 %) in five windows of twelve seconds.
 * The error is at most half a bucket, 0.5 % of the value. Source: DDSketch, Masson et al. 2019.
 */

const WINDOW_MS = 60_000;
const NUM_AGES = 5;
const GROWTH = 1.01;
const LOG_GROWTH = Math.log(GROWTH);
/** Largest distinguished value, in the observed unit: about 3 hours in microseconds. */
const MAX_VALUE = 1e10;
const NUM_BUCKETS = Math.ceil(Math.log(MAX_VALUE) / LOG_GROWTH) + 2;

export class SlidingSummary {
  /** Windows without observations have no buckets: an idle model costs no memory. */
  readonly #ages: (Uint32Array | undefined)[] = new Array<undefined>(NUM_AGES).fill(undefined);
  #newest = 0;
  #rotateAtMs: number;
  #count = 0;
  #sum = 0;

  constructor(nowMs: number) {
    this.#rotateAtMs = nowMs + WINDOW_MS / NUM_AGES;
  }

  /** Totals since the start, as Prometheus summaries require. */
  get count(): number {
    return this.#count;
  }

  get sum(): number {
    return this.#sum;
  }

  observe(value: number, nowMs: number): void {
    this.#rotate(nowMs);
    this.#count += 1;
    this.#sum += value;
    const age = this.#ages[this.#newest] ?? new Uint32Array(NUM_BUCKETS);
    this.#ages[this.#newest] = age;
    const bucket = bucketOf(value);
    age[bucket] = (age[bucket] ?? 0) + 1;
  }

  /** NaN when nothing was observed within the window. */
  quantile(q: number, nowMs: number): number {
    return this.quantiles([q], nowMs)[0] ?? Number.NaN;
  }

  /** Several of them cost as much as one. */
  quantiles(qs: readonly number[], nowMs: number): readonly number[] {
    this.#rotate(nowMs);
    const ages = this.#ages.filter((age) => age !== undefined);
    if (ages.length === 0) return qs.map(() => Number.NaN);
    const totals = new Float64Array(NUM_BUCKETS);
    let seen = 0;
    for (const age of ages) {
      for (let i = 0; i < NUM_BUCKETS; i += 1) totals[i] = (totals[i] ?? 0) + (age[i] ?? 0);
    }
    for (const total of totals) seen += total;
    return qs.map((q) => quantileOf(q, totals, seen));
  }

  #rotate(nowMs: number): void {
    for (let turns = 0; nowMs >= this.#rotateAtMs && turns < NUM_AGES; turns += 1) {
      this.#newest = (this.#newest + 1) % NUM_AGES;
      this.#ages[this.#newest] = undefined;
      this.#rotateAtMs += WINDOW_MS / NUM_AGES;
    }
    if (nowMs >= this.#rotateAtMs) this.#rotateAtMs = nowMs + WINDOW_MS / NUM_AGES; // idle for longer than the window
  }
}

function quantileOf(q: number, totals: Float64Array, seen: number): number {
  let left = Math.max(1, Math.ceil(q * seen));
  for (let i = 0; i < NUM_BUCKETS; i += 1) {
    left -= totals[i] ?? 0;
    if (left <= 0) return middleOf(i);
  }
  return middleOf(NUM_BUCKETS - 1);
}

/** Bucket 0 holds everything below one; bucket i ends at GROWTH ** i. */
function bucketOf(value: number): number {
  if (!(value >= 1)) return 0;
  return Math.min(NUM_BUCKETS - 1, 1 + Math.floor(Math.log(value) / LOG_GROWTH));
}

/** The middle of a bucket. */
function middleOf(bucket: number): number {
  return bucket === 0 ? 0 : GROWTH ** (bucket - 0.5);
}
