/**
 * The oldest strategy: ready sequences of an instance are batched dynamically, in order of arrival. Source: Triton
 * documentation, "Sequence Batcher", Oldest.
 */
import { type BatchCandidate, type BatchRules, decideBatch } from "../batch/batch-decision.ts";
import type { ClientSequence } from "./sequence.ts";
import { NOTHING, type SequenceBatch, type SequenceStrategy } from "./strategy.ts";

const US_PER_MS = 1000;

export class OldestStrategy implements SequenceStrategy {
  /** Undefined = the model has no batch dimension. */
  readonly #rules: BatchRules | undefined;
  /** In the order in which their requests became ready. */
  #waiting: ClientSequence[] = [];

  constructor(rules: BatchRules | undefined) {
    this.#rules = rules;
  }

  get hasOffers(): boolean {
    return this.#waiting.length > 0;
  }

  get mayDelay(): boolean {
    return (this.#rules?.queueDelayUs ?? 0) > 0;
  }

  offered(): readonly ClientSequence[] {
    return this.#waiting;
  }

  enter(): void {
    // Slots only bound the number of sequences: a batch has no fixed rows.
  }

  offer(sequence: ClientSequence): void {
    sequence.isOffered = true;
    this.#waiting.push(sequence);
  }

  leave(sequence: ClientSequence): void {
    if (!sequence.isOffered) return;
    sequence.isOffered = false;
    this.#waiting = this.#waiting.filter((waiting) => waiting !== sequence);
  }

  next(nowMs: number): SequenceBatch {
    if (this.#waiting.length === 0) return NOTHING;
    const { take, waitUs } =
      this.#rules === undefined ? { take: 1, waitUs: 0 } : decideBatch(candidates(this.#waiting, nowMs), this.#rules);
    const rows = this.#waiting.splice(0, take);
    for (const sequence of rows) sequence.isOffered = false;
    return { rows, waitMs: waitUs / US_PER_MS };
  }
}

function* candidates(waiting: readonly ClientSequence[], nowMs: number): Generator<BatchCandidate> {
  for (const { key, offeredMs } of waiting) yield { rows: 1, key, waitedUs: (nowMs - offeredMs) * US_PER_MS };
}
