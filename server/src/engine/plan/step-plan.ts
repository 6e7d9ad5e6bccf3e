/** The work of one step. The planner refills this record for each step; it decides nothing. */
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
  /** Block pairs to copy before the step, in order: from, to. Numbers beyond the device blocks are host blocks. */
  blockCopies: readonly number[] = [];
  /** Pairs of slots of states to copy before the step. */
  stateCopies: readonly number[] = [];

  clear(): void {
    this.sequences.length = 0;
    this.queryLengths.length = 0;
    this.admitted.length = 0;
    this.numTokens = 0;
    this.numContextTokens = 0;
    this.numContextSequences = 0;
    this.blockCopies = [];
    this.stateCopies = [];
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
