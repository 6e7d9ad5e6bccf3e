/**
 * Counts frames that cost the client nothing and the server something (RFC 9113, 10.5; CVE-2023-44487 rapid reset,
 * CVE-2025-8671 MadeYouReset, CVE-2024-27316 CONTINUATION flood). Decides when it is too much; ends nothing itself.
 */

import {
  MAX_CONTROL_PER_SECOND,
  MAX_EMPTY_FRAMES,
  MAX_RESET_BURST,
  MAX_RESETS_PER_SECOND,
  MAX_SMALL_WINDOWS,
} from "./limits.ts";

/** Clients wait until a good part of a window is used. */
const MIN_WINDOW_STEP_BYTES = 256;

export class FloodGuard {
  #resets = 0;
  #resetsSinceMs = 0;
  #empty = 0;
  #smallWindows = 0;
  #controls = 0;
  #controlsSinceMs = 0;

  /** A stream was reset by the client, or because of it. True: too many. */
  reset(nowMs: number): boolean {
    const refill = ((nowMs - this.#resetsSinceMs) * MAX_RESETS_PER_SECOND) / 1000;
    this.#resets = Math.max(0, this.#resets - refill) + 1;
    this.#resetsSinceMs = nowMs;
    return this.#resets > MAX_RESET_BURST;
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

  /** A window that was used up grows. True: by too little, too often. */
  window(increment: number): boolean {
    this.#smallWindows = increment < MIN_WINDOW_STEP_BYTES ? this.#smallWindows + 1 : 0;
    return this.#smallWindows > MAX_SMALL_WINDOWS;
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
