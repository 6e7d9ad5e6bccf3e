/**
 * Counts frames that cost the client nothing and the server something (RFC 9113, 10.5; CVE-2023-44487 rapid reset,
 * CVE-2024-27316 CONTINUATION flood). Decides when it is too much; ends nothing itself.
 */

/** Streams that a client may reset at once, and how many more each second. Users cancel, but not this fast. */
const RESET_BURST = 2000;
const RESETS_PER_SECOND = 200;
/** Frames in a row that carry nothing. */
const MAX_EMPTY_FRAMES = 1000;
/** Settings and pings of a second. */
const MAX_CONTROL_PER_SECOND = 10_000;

export class FloodGuard {
  #resets = 0;
  #resetsSinceMs = 0;
  #empty = 0;
  #controls = 0;
  #controlsSinceMs = 0;

  /** A stream was reset by the client. True: too many. */
  reset(nowMs: number): boolean {
    const refill = ((nowMs - this.#resetsSinceMs) * RESETS_PER_SECOND) / 1000;
    this.#resets = Math.max(0, this.#resets - refill) + 1;
    this.#resetsSinceMs = nowMs;
    return this.#resets > RESET_BURST;
  }

  /** A frame without content and without end. True: too many. */
  empty(): boolean {
    this.#empty += 1;
    return this.#empty > MAX_EMPTY_FRAMES;
  }

  /** A frame with content. */
  content(): void {
    this.#empty = 0;
  }

  /** A frame that must be answered. True: too many. */
  control(nowMs: number): boolean {
    if (nowMs - this.#controlsSinceMs >= 1000) {
      this.#controlsSinceMs = nowMs;
      this.#controls = 0;
    }
    this.#controls += 1;
    return this.#controls > MAX_CONTROL_PER_SECOND;
  }
}
