/** Histogram counters. Observing allocates nothing; the series are made when a page is scraped. */
import type { MetricSample } from "./metrics.ts";

export class Histogram {
  readonly #bounds: readonly number[];
  /** Observations per bucket, not cumulative; the last one is unbounded. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** `bounds`: upper ends of the buckets, ascending, inclusive. */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && value > (bounds[bucket] ?? 0)) bucket += 1;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  *samples(labels: Readonly<Record<string, string>>): Iterable<MetricSample> {
    let total = 0;
    for (const [i, count] of this.#counts.entries()) {
      total += count;
      yield { suffix: "_bucket", labels: { ...labels, le: this.#bounds[i]?.toString() ?? "+Inf" }, value: total };
    }
    yield { suffix: "_sum", labels, value: this.#sum };
    yield { suffix: "_count", labels, value: total };
  }
}
