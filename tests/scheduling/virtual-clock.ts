/** A clock that stands still until the next thing is due: hours of timeouts pass in microseconds, and always alike. */
import type { Alarm, Clock } from "../../server/src/scheduler/clock.ts";

/** Nothing happens in the very moment in which it was asked for: a real clock goes on too. */
const GRAIN_MS = 0.001;

interface Due {
  readonly atMs: number;
  readonly run: () => void;
  isOff: boolean;
}

export class VirtualClock implements Clock {
  #nowMs = 0;
  /** Latest first; of one time, the one that was set first comes last. */
  readonly #dues: Due[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  alarm(callback: () => void): Alarm {
    let due: Due | undefined;
    const clear = (): void => {
      if (due !== undefined) due.isOff = true;
      due = undefined;
    };
    return {
      clear,
      set: (dueMs) => {
        clear();
        if (dueMs === Number.POSITIVE_INFINITY) return;
        due = this.#add(Math.max(dueMs, this.#nowMs + GRAIN_MS), () => {
          due = undefined;
          callback();
        });
      },
    };
  }

  after(delayMs: number, callback: () => void): () => void {
    const due = this.#add(this.#nowMs + Math.max(delayMs, GRAIN_MS), callback);
    return () => {
      due.isOff = true;
    };
  }

  soon(callback: () => void): void {
    this.#add(this.#nowMs + GRAIN_MS, callback);
  }

  /** Goes on to what is due next and does it; false when nothing is. */
  step(): boolean {
    for (let due = this.#dues.pop(); due !== undefined; due = this.#dues.pop()) {
      if (due.isOff) continue;
      this.#nowMs = Math.max(this.#nowMs, due.atMs);
      due.run();
      return true;
    }
    return false;
  }

  #add(atMs: number, run: () => void): Due {
    const due = { atMs, run, isOff: false };
    let at = this.#dues.length;
    while (at > 0 && (this.#dues[at - 1]?.atMs ?? 0) <= atMs) at -= 1;
    this.#dues.splice(at, 0, due);
    return due;
  }
}
