/**
 * How long the block of each link of a prefix cache is worth keeping: its retention priority, the end of that, and its last use.
 * Knows no blocks. Source of priorities and durations: TensorRT-LLM's KvCacheRetentionConfig.
 */
import { type BlockRetention, DEFAULT_RETENTION_PRIORITY } from "./retention.ts";

const NOTHING: readonly number[] = Object.freeze([]);

export class LinkWorth {
  readonly #priorities: Uint8Array;
  readonly #durationsMs: Float64Array;
  readonly #lastUses: Float64Array;
  /** Idle links whose priority ends at a time. */
  readonly #expiries = new Map<number, number>();
  #nextExpiryMs = Number.POSITIVE_INFINITY;
  #nowMs = 0;
  #clock = 0;

  constructor(numLinks: number) {
    this.#priorities = new Uint8Array(numLinks);
    this.#durationsMs = new Float64Array(numLinks);
    this.#lastUses = new Float64Array(numLinks);
  }

  priority(link: number): number {
    return this.#priorities[link] ?? 0;
  }

  /** Counts uses; no time. */
  lastUse(link: number): number {
    return this.#lastUses[link] ?? 0;
  }

  /** As without a retention setting. */
  reset(link: number): void {
    this.retain(link, { priority: DEFAULT_RETENTION_PRIORITY, durationMs: Number.POSITIVE_INFINITY });
  }

  /** Holds until another request sets another one, or its duration has passed. */
  retain(link: number, { priority, durationMs }: BlockRetention): void {
    this.#priorities[link] = priority;
    this.#durationsMs[link] = durationMs;
  }

  /** The last user has gone: the duration of its priority begins. */
  startExpiry(link: number): void {
    this.#clock += 1;
    this.#lastUses[link] = this.#clock;
    const expiryMs = this.#nowMs + (this.#durationsMs[link] ?? 0);
    if (expiryMs === Number.POSITIVE_INFINITY) return;
    this.#expiries.set(link, expiryMs);
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs, expiryMs);
  }

  /** It is in use, or known no more. */
  stopExpiry(link: number): void {
    this.#expiries.delete(link);
  }

  /** Tells the time, in milliseconds of a clock that never goes back. Gives the links whose priority ended. */
  tick(nowMs: number): readonly number[] {
    this.#nowMs = nowMs;
    if (nowMs < this.#nextExpiryMs) return NOTHING;
    const ended: number[] = [];
    this.#nextExpiryMs = Number.POSITIVE_INFINITY;
    for (const [link, atMs] of this.#expiries) {
      if (atMs <= nowMs) ended.push(link);
      else this.#nextExpiryMs = Math.min(this.#nextExpiryMs, atMs);
    }
    for (const link of ended) {
      this.#expiries.delete(link);
      this.reset(link);
    }
    return ended;
  }
}
