/**
 * A timer with microsecond precision, unlike setTimeout. It sleeps whole milliseconds with Node's timer and most of the
 * rest on a futex in another thread (short-sleep.ts). For the last microseconds it spins through the event loop, so
 * other work continues. One pending callback at a time.
 */
import { ShortSleep } from "./short-sleep.ts";

/** Maximum lateness of setTimeout, in ms. */
const TIMEOUT_GRAIN_MS = 2;
/** Shorter waits, in ms, do not justify a round trip to another thread. */
const SHORT_SLEEP_MS = 0.1;
/** Minimum round trip to the thread, in ms; it is asked to wake this much earlier. */
const WAKE_UP_MS = 0.04;
/** Times closer to each other than this, in ms, count as equal. */
const SAME_MS = 0.005;
/** The maximum delay of setTimeout; longer waits continue with another timer. */
const MAX_TIMEOUT_MS: number = 2 ** 31 - 1;

let shared: ShortSleep | undefined;

/** Starts the thread for sub-millisecond waits. That takes some milliseconds, so call it before requests wait. */
export function prepareShortWaits(): void {
  shared ??= new ShortSleep();
}

export class PreciseTimer {
  readonly #callback: () => void;
  readonly #arm = (): void => this.#wait();
  readonly #turn = (): void => this.#turned();
  #dueMs = Number.POSITIVE_INFINITY;
  #timeout: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;
  #isSleeping = false;

  constructor(callback: () => void) {
    this.#callback = callback;
  }

  /** Calls back at `dueMs` of `performance.now()`, replacing what was set before; Infinity = never. */
  set(dueMs: number): void {
    if (dueMs === this.#dueMs || Math.abs(dueMs - this.#dueMs) < SAME_MS) return;
    this.clear();
    this.#dueMs = dueMs;
    if (dueMs < Number.POSITIVE_INFINITY) this.#wait();
  }

  clear(): void {
    this.#dueMs = Number.POSITIVE_INFINITY;
    if (this.#timeout !== undefined) clearTimeout(this.#timeout);
    if (this.#immediate !== undefined) clearImmediate(this.#immediate);
    if (this.#isSleeping) shared?.forget(this.#arm);
    this.#timeout = undefined;
    this.#immediate = undefined;
    this.#isSleeping = false;
  }

  #wait(): void {
    this.#isSleeping = false;
    this.#timeout = undefined;
    const leftMs = this.#dueMs - performance.now();
    if (leftMs > TIMEOUT_GRAIN_MS) {
      this.#timeout = setTimeout(this.#arm, Math.min(leftMs - TIMEOUT_GRAIN_MS, MAX_TIMEOUT_MS));
    } else if (leftMs > SHORT_SLEEP_MS) this.#sleep();
    else this.#immediate = setImmediate(this.#turn);
  }

  /** Spins through the event loop when the thread is not ready. */
  #sleep(): void {
    if (shared?.isReady === true) {
      this.#isSleeping = true;
      shared.wakeAt(this.#dueMs - WAKE_UP_MS, this.#arm);
    } else this.#immediate = setImmediate(this.#turn);
  }

  #turned(): void {
    if (performance.now() < this.#dueMs) {
      this.#immediate = setImmediate(this.#turn);
      return;
    }
    this.clear();
    this.#callback();
  }
}
