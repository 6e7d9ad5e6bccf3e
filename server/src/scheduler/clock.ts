/** The clock of the schedulers: the system's, or a manual one in tests. Knows no requests. */
import { PreciseTimer } from "./precise-timer.ts";

/** One pending callback at a time. */
export interface Alarm {
  /** Calls back at `dueMs` on the clock, replacing the earlier time; Infinity = never. */
  set(dueMs: number): void;
  clear(): void;
}

export interface Clock {
  /** Monotonic milliseconds. */
  nowMs(): number;
  /** Exact to some microseconds, for batches that must start. */
  alarm(callback: () => void): Alarm;
  /** Exact to some milliseconds and keeps no process alive, for timeouts. Returns the function that cancels it. */
  after(delayMs: number, callback: () => void): () => void;
  /** Runs after the events that have already arrived were handled. */
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
