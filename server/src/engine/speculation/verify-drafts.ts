/**
 * Verification of a sequence's draft tokens (Leviathan et al. 2023, with equal tokens in place of ratios): the row after its
 * last token counts, and the row after each draft as long as the tokens chosen so far are the drafts before it. It is then
 * the row that a step of its own would have given.
 */
import type { StepPlanner } from "../plan/step-planner.ts";
import type { Sequence } from "../request/sequence.ts";

/** @param take hands out the token of a row, counted from 0; false once the sequence is over */
export function verifyDrafts(
  sequence: Sequence,
  numDrafts: number,
  planner: Pick<StepPlanner, "computed" | "trim">,
  take: (row: number) => boolean,
): void {
  const { numDrafted, numAccepted } = sequence;
  for (let row = 0; row <= numDrafts; row++) {
    const before = sequence.numAccepted;
    if (!take(row)) return;
    if (row === numDrafts || sequence.numAccepted === before) break;
    planner.computed(sequence, 1);
  }
  planner.trim(sequence);
  sequence.pace.record(sequence.numDrafted - numDrafted, sequence.numAccepted - numAccepted);
}
