/**
 * A timer that is honest below a millisecond, where setTimeout is not: it sleeps for the whole milliseconds with Node's timer,
 * for most of the rest on a futex of another thread, and turns the event loop for the last microseconds. Other work goes on
 * all the while. One pending callback at a time.
 */
import { ShortSleep } from "./short-sleep.ts";

/** setTimeout may fire up to this much late. */
const TIMEOUT_GRAIN_MS = 2;
/** A shorter wait is not worth the way to another thread and back. */
const SHORT_SLEEP_MS = 0.1;
/** How long that way takes at least: so much earlier the thread is asked to wake us. */
const WAKE_UP_MS = 0.04;
/** Times nearer than this to each other are the same. */
const SAME_MS = 0.005;
/** The longest that setTimeout can wait; the rest is waited for again. */
const MAX_TIMEOUT_MS: number = 2 ** 31 - 1;

let shared: ShortSleep | undefined;

/** For schedulers that will wait for less than milliseconds. Starting the thread takes some of them: not while requests wait. */
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

  /** Without a thread that is ready the loop turns. */
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
