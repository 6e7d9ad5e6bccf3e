/** Interface of the two strategies: they choose which sequences of an instance form the next batch. */
import type { Sequence } from "./sequence.ts";

/** Rows of the next batch in order (undefined: a padding row), or the time of the next decision. */
export interface SequenceBatch {
  readonly rows: readonly (Sequence | undefined)[];
  readonly waitMs: number;
}

export interface SequenceStrategy {
  /** False: there is no pending sequence. */
  readonly hasOffers: boolean;
  /** True: pending requests may have to wait for more requests, or for a delay. */
  readonly mayDelay: boolean;
  /** Number of pending sequences. */
  offered(): readonly Sequence[];
  /** The sequence got a slot of this instance. */
  enter(sequence: Sequence): void;
  /** The slot is free again, and the sequence is not running. */
  leave(sequence: Sequence): void;
  /** The sequence's next request is ready. */
  offer(sequence: Sequence): void;
  /** Removes the sequences of the batch from the pending ones. */
  next(nowMs: number): SequenceBatch;
}

export const NOTHING: SequenceBatch = Object.freeze({ rows: [], waitMs: Number.POSITIVE_INFINITY });
