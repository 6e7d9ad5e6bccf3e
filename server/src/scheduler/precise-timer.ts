/**
 * A timer that is honest below a millisecond, where setTimeout is not: it sleeps for the whole milliseconds and turns the
 * event loop for the rest, so other work goes on. One pending callback at a time.
 */

/** setTimeout may fire up to this much late; the rest is waited for by turning. */
const TIMEOUT_GRAIN_MS = 2;
/** The longest that setTimeout can wait; the rest is waited for again. */
const MAX_TIMEOUT_MS: number = 2 ** 31 - 1;

export class PreciseTimer {
  readonly #callback: () => void;
  #dueMs = Number.POSITIVE_INFINITY;
  #timeout: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;

  constructor(callback: () => void) {
    this.#callback = callback;
  }

  /** Calls back at `dueMs` of `performance.now()`, replacing what was set before; Infinity = never. */
  set(dueMs: number): void {
    if (dueMs === this.#dueMs) return;
    this.clear();
    this.#dueMs = dueMs;
    if (dueMs < Number.POSITIVE_INFINITY) this.#arm();
  }

  clear(): void {
    this.#dueMs = Number.POSITIVE_INFINITY;
    clearTimeout(this.#timeout);
    clearImmediate(this.#immediate);
    this.#timeout = undefined;
    this.#immediate = undefined;
  }

  #arm(): void {
    const leftMs = this.#dueMs - performance.now();
    if (leftMs > TIMEOUT_GRAIN_MS) {
      this.#timeout = setTimeout(() => this.#arm(), Math.min(leftMs - TIMEOUT_GRAIN_MS, MAX_TIMEOUT_MS));
    } else this.#immediate = setImmediate(() => this.#turn());
  }

  #turn(): void {
    if (performance.now() < this.#dueMs) {
      this.#immediate = setImmediate(() => this.#turn());
      return;
    }
    this.clear();
    this.#callback();
  }
}
