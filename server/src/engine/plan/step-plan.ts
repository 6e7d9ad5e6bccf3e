/** What one step computes. A record that the planner fills anew for each step: it decides nothing. */
import type { Sequence } from "../request/sequence.ts";

export class StepPlan {
  readonly sequences: Sequence[] = [];
  readonly queryLengths: number[] = [];
  /** Sequences whose first step this is. */
  readonly admitted: Sequence[] = [];
  numTokens = 0;
  /** Tokens of prompts among them, and the sequences those belong to. */
  numContextTokens = 0;
  numContextSequences = 0;
  /** Pairs of blocks to copy before the step, in this order: from, to. Those behind the first tier are the second's. */
  blockCopies: readonly number[] = [];

  clear(): void {
    this.sequences.length = 0;
    this.queryLengths.length = 0;
    this.admitted.length = 0;
    this.numTokens = 0;
    this.numContextTokens = 0;
    this.numContextSequences = 0;
    this.blockCopies = [];
  }

  /** The next `length` tokens of a sequence. */
  add(sequence: Sequence, length: number): void {
    this.sequences.push(sequence);
    this.queryLengths.push(length);
    this.numTokens += length;
    if (length === 1 && sequence.numComputed >= sequence.promptLength) return;
    this.numContextTokens += length;
    this.numContextSequences += 1;
  }
}
