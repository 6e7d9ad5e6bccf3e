/**
 * A token bucket: it fills at a constant rate up to a minute's worth, and each request takes its cost out. Source: RFC 2697 uses
 * the same scheme; the unit here is a request or a token. Times are milliseconds of any monotonic clock.
 */

const MS_PER_MINUTE = 60_000;
/** Rounding error of a level after many fills. Without it a request could be a millisecond late. */
const ROUNDING = 1e-6;

export class TokenBucket {
  readonly perMinute: number;
  #level: number;
  #atMs: number;

  /** Begins full. */
  constructor(perMinute: number, nowMs: number) {
    this.perMinute = perMinute;
    this.#level = perMinute;
    this.#atMs = nowMs;
  }

  /**
   * Milliseconds until `cost` may be taken, 0 = now. A cost above a whole minute's worth may be taken when the bucket is full,
   * and leaves a debt.
   */
  waitMs(cost: number, nowMs: number): number {
    const missing = Math.min(cost, this.perMinute) - this.levelAt(nowMs);
    return missing <= ROUNDING ? 0 : Math.ceil(((missing - ROUNDING) * MS_PER_MINUTE) / this.perMinute);
  }

  /** Takes without asking; a negative cost gives back. */
  take(cost: number, nowMs: number): void {
    this.#level = Math.min(this.levelAt(nowMs) - cost, this.perMinute);
    this.#atMs = nowMs;
  }

  /** Tokens that may be taken; negative after a debt. */
  levelAt(nowMs: number): number {
    const filled = (Math.max(nowMs - this.#atMs, 0) * this.perMinute) / MS_PER_MINUTE;
    return Math.min(this.#level + filled, this.perMinute);
  }

  /** Milliseconds until it is full. */
  resetMs(nowMs: number): number {
    return Math.ceil(((this.perMinute - this.levelAt(nowMs)) * MS_PER_MINUTE) / this.perMinute);
  }

  /** With the same fill under another rate: a changed key file neither refills nor empties. */
  withRate(perMinute: number, nowMs: number): TokenBucket {
    const bucket = new TokenBucket(perMinute, nowMs);
    bucket.take(perMinute - (this.levelAt(nowMs) * perMinute) / this.perMinute, nowMs);
    return bucket;
  }
}
