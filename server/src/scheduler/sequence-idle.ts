/** Finds sequences that nobody continues. Knows what time it is, not what a sequence is. */

/** The longest that setTimeout can wait. */
const MAX_TIMEOUT_MS: number = 2 ** 31 - 1;

export class IdleReaper<T> {
  readonly #idleMs: number;
  readonly #onIdle: (item: T) => void;
  /** Since when each has been idle, longest first: all wait equally long. */
  readonly #since = new Map<T, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(idleMs: number, onIdle: (item: T) => void) {
    this.#idleMs = idleMs;
    this.#onIdle = onIdle;
  }

  start(item: T): void {
    this.#since.delete(item);
    this.#since.set(item, performance.now());
    this.#arm();
  }

  stop(item: T): void {
    this.#since.delete(item);
  }

  clear(): void {
    this.#since.clear();
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** A timer may ring too early, after a stop: then it is set anew. It keeps no process alive. */
  #arm(): void {
    const [first] = this.#since;
    if (this.#timer !== undefined || first === undefined) return;
    const leftMs = Math.ceil(first[1] + this.#idleMs - performance.now());
    this.#timer = setTimeout(() => this.#ring(), Math.min(Math.max(leftMs, 1), MAX_TIMEOUT_MS));
    this.#timer.unref();
  }

  #ring(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    for (const [item, sinceMs] of this.#since) {
      if (sinceMs + this.#idleMs > nowMs) break;
      this.#since.delete(item);
      this.#onIdle(item);
    }
    this.#arm();
  }
}
