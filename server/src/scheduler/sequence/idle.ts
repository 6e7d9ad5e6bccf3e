/** Expires idle sequences (max_sequence_idle_microseconds). Knows time, not sequences. */
import type { Clock } from "../clock.ts";

/** The maximum delay of setTimeout. */
const MAX_TIMEOUT_MS: number = 2 ** 31 - 1;

export class IdleReaper<T> {
  readonly #idleMs: number;
  readonly #onIdle: (item: T) => void;
  /** Start of each idle period, longest first: all have the same limit. */
  readonly #since = new Map<T, number>();
  readonly #clock: Clock;
  /** Set while a timer is pending. */
  #callOff: (() => void) | undefined;

  constructor(clock: Clock, idleMs: number, onIdle: (item: T) => void) {
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#onIdle = onIdle;
  }

  start(item: T): void {
    this.#since.delete(item);
    this.#since.set(item, this.#clock.nowMs());
    this.#arm();
  }

  stop(item: T): void {
    this.#since.delete(item);
  }

  clear(): void {
    this.#since.clear();
    this.#callOff?.();
    this.#callOff = undefined;
  }

  /** A timer may fire early or after a stop: then it is set again. It keeps no process alive. */
  #arm(): void {
    const [first] = this.#since;
    if (this.#callOff !== undefined || first === undefined) return;
    const leftMs = Math.ceil(first[1] + this.#idleMs - this.#clock.nowMs());
    this.#callOff = this.#clock.after(Math.min(Math.max(leftMs, 1), MAX_TIMEOUT_MS), () => this.#ring());
  }

  #ring(): void {
    this.#callOff = undefined;
    const nowMs = this.#clock.nowMs();
    for (const [item, sinceMs] of this.#since) {
      if (sinceMs + this.#idleMs > nowMs) break;
      this.#since.delete(item);
      this.#onIdle(item);
    }
    this.#arm();
  }
}
