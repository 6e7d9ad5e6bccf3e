/** Sequences that wait for a slot, oldest first, each with its expiry time (Triton's backlog). */
import type { Alarm, Clock } from "../clock.ts";
import type { ClientSequence } from "./sequence.ts";

const US_PER_MS = 1000;

export class SequenceBacklog {
  readonly #waiting = new Set<ClientSequence>();
  readonly #onExpired: (sequence: ClientSequence) => void;
  readonly #clock: Clock;
  readonly #timer: Alarm;
  /** No sequence expires before this. */
  #nextDeadlineMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock, onExpired: (sequence: ClientSequence) => void) {
    this.#clock = clock;
    this.#timer = clock.alarm(() => this.#expire());
    this.#onExpired = onExpired;
  }

  add(sequence: ClientSequence): void {
    this.#waiting.add(sequence);
  }

  /** A request's own timeout (0 = none) can only shorten that of its sequence. */
  limit(sequence: ClientSequence, timeoutUs: number, nowMs: number): void {
    if (timeoutUs <= 0 || !this.#waiting.has(sequence)) return;
    sequence.deadlineMs = Math.min(sequence.deadlineMs, nowMs + timeoutUs / US_PER_MS);
    if (sequence.deadlineMs >= this.#nextDeadlineMs) return;
    this.#nextDeadlineMs = sequence.deadlineMs;
    this.#timer.set(this.#nextDeadlineMs);
  }

  delete(sequence: ClientSequence): void {
    this.#waiting.delete(sequence);
    if (this.#waiting.size === 0) this.#setDeadline(Number.POSITIVE_INFINITY);
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** Removes the one that has waited longest. */
  shift(): ClientSequence | undefined {
    const [first] = this.#waiting;
    if (first !== undefined) this.delete(first);
    return first;
  }

  #expire(): void {
    const nowMs = this.#clock.nowMs();
    const late = [...this.#waiting].filter(({ deadlineMs }) => deadlineMs <= nowMs);
    for (const sequence of late) this.#waiting.delete(sequence);
    let next = Number.POSITIVE_INFINITY;
    for (const { deadlineMs } of this.#waiting) next = Math.min(next, deadlineMs);
    this.#setDeadline(next);
    for (const sequence of late) this.#onExpired(sequence);
  }

  #setDeadline(deadlineMs: number): void {
    this.#nextDeadlineMs = deadlineMs;
    this.#timer.set(deadlineMs);
  }
}
