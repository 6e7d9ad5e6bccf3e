/** The time that schedulers live in: the system's, or one that a test turns by hand. Knows no requests. */
import { PreciseTimer } from "./precise-timer.ts";

/** One pending callback at a time. */
export interface Alarm {
  /** Calls back at `dueMs` on the clock, replacing what was set before; Infinity = never. */
  set(dueMs: number): void;
  clear(): void;
}

export interface Clock {
  /** Milliseconds that never go back. */
  nowMs(): number;
  /** Exact to some microseconds, for batches that must go. */
  alarm(callback: () => void): Alarm;
  /** Exact to some milliseconds and keeps no process alive, for what should not have to happen. Returns how to call it off. */
  after(delayMs: number, callback: () => void): () => void;
  /** When what has come in by now has been looked at. */
  soon(callback: () => void): void;
}

export const SYSTEM_CLOCK: Clock = {
  nowMs: () => performance.now(),
  alarm: (callback) => new PreciseTimer(callback),
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
  soon(callback) {
    setImmediate(callback);
  },
};
