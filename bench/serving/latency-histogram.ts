/** Times of many events at a fixed cost each, and how late the latest were: buckets of equal width. */

const BUCKET_US = 20;
/** The last one takes all that took longer. */
const NUM_BUCKETS = 100_000;

export class LatencyHistogram {
  readonly #buckets = new Uint32Array(NUM_BUCKETS);
  count = 0;

  add(us: number): void {
    const bucket = Math.min(NUM_BUCKETS - 1, Math.max(0, Math.floor(us / BUCKET_US)));
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1;
    this.count += 1;
  }

  reset(): void {
    this.#buckets.fill(0);
    this.count = 0;
  }

  /** The upper end of the bucket; NaN without events. */
  percentileUs(share: number): number {
    if (this.count === 0) return Number.NaN;
    const rank = Math.min(this.count - 1, Math.floor(this.count * share));
    let seen = 0;
    for (const [bucket, count] of this.#buckets.entries()) {
      seen += count;
      if (seen > rank) return (bucket + 1) * BUCKET_US;
    }
    return Number.NaN;
  }
}
