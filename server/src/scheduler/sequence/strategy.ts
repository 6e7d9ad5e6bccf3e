/** Interface of the two strategies: they choose which sequences of an instance form the next batch. */
import type { ClientSequence } from "./sequence.ts";

/** Rows of the next batch in order (undefined: a padding row), or the time of the next decision. */
export interface SequenceBatch {
  readonly rows: readonly (ClientSequence | undefined)[];
  readonly waitMs: number;
}

export interface SequenceStrategy {
  /** False: there is no pending sequence. */
  readonly hasOffers: boolean;
  /** True: pending requests may have to wait for more requests, or for a delay. */
  readonly mayDelay: boolean;
  /** Number of pending sequences. */
  offered(): readonly ClientSequence[];
  /** The sequence got a slot of this instance. */
  enter(sequence: ClientSequence): void;
  /** The slot is free again, and the sequence is not running. */
  leave(sequence: ClientSequence): void;
  /** The sequence's next request is ready. */
  offer(sequence: ClientSequence): void;
  /** Removes the sequences of the batch from the pending ones. */
  next(nowMs: number): SequenceBatch;
}

export const NOTHING: SequenceBatch = Object.freeze({ rows: [], waitMs: Number.POSITIVE_INFINITY });
