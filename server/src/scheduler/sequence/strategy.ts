/** The contract of the two strategies: which sequences of an instance go into its next batch. */
import type { Sequence } from "./sequence.ts";

/** Rows of the next batch in order, undefined = a row without a request; or, when there are none, when to look again. */
export interface SequenceBatch {
  readonly rows: readonly (Sequence | undefined)[];
  readonly waitMs: number;
}

export interface SequenceStrategy {
  /** False: no sequence was offered that has not been taken. */
  readonly hasOffers: boolean;
  /** True: what is offered may have to wait for more, or for its time. */
  readonly mayDelay: boolean;
  /** Sequences that were offered and not taken. */
  offered(): readonly Sequence[];
  /** The sequence has got its slot of this instance. */
  enter(sequence: Sequence): void;
  /** The slot is free again, and the sequence runs no more. */
  leave(sequence: Sequence): void;
  /** The sequence's next request may go. */
  offer(sequence: Sequence): void;
  /** Takes the sequences of the batch out of those offered. */
  next(nowMs: number): SequenceBatch;
}

export const NOTHING: SequenceBatch = Object.freeze({ rows: [], waitMs: Number.POSITIVE_INFINITY });
