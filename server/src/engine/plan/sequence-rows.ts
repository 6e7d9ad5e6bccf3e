/** Which rows of a step's logits belong to which sequence, and which tokens the device chose instead. Pure. @see StepBatch.fill */
import type { Sequence } from "../request/sequence.ts";
import type { ChosenTokens, TokenChoice } from "../step-runner.ts";
import type { StepPlan } from "./step-plan.ts";

/** A step in which the device chose some tokens; its `logits` hold the other rows alone. */
export interface PartlyChosen {
  /** One for each row of the step. */
  readonly choices: readonly (TokenChoice | undefined)[];
  readonly chosen: ChosenTokens;
}

export interface SequenceRows {
  readonly sequence: Sequence;
  /** Tokens that are computed for good: those of the step without drafts. */
  readonly numComputed: number;
  readonly numDrafts: number;
  /** Rows of its prompt: their number, and the first one's index. */
  readonly numPromptRows: number;
  readonly firstPromptRow: number;
  /** Index of the row after its last token, those of drafts follow; undefined: a chunk in the middle of its prompt. */
  readonly lastRow: number | undefined;
  /** Row of the token chosen behind its last one, those behind drafts follow; undefined: its rows must be seen. */
  readonly chosenRow: number | undefined;
}

/** @param partly undefined: every row is seen. Rows without a choice alone are counted by the indices of rows */
export function sequenceRows(
  { sequences, queryLengths }: Pick<StepPlan, "sequences" | "queryLengths">,
  promptRows: readonly number[],
  partly?: PartlyChosen,
): readonly SequenceRows[] {
  let row = 0;
  let numChosen = 0;
  return sequences.map((sequence, i) => {
    const length = queryLengths[i] ?? 0;
    const numDrafts = Math.max(0, sequence.numComputed + length - sequence.numTokens);
    const numPromptRows = promptRows[i] ?? 0;
    const shared = { sequence, numComputed: length - numDrafts, numDrafts, numPromptRows, firstPromptRow: row };
    row += numPromptRows;
    const isMiddle = sequence.numComputed + length - numDrafts < sequence.numTokens;
    if (isMiddle) return { ...shared, lastRow: undefined, chosenRow: undefined };
    if (numPromptRows === 0 && partly?.choices[row + numChosen] !== undefined) {
      const chosenRow = row + numChosen;
      numChosen += 1 + numDrafts;
      return { ...shared, lastRow: row, chosenRow };
    }
    // The row of the last prompt token is among those of the prompt already.
    if (numPromptRows === 0 || sequence.numTokens !== sequence.promptLength) row += 1;
    const lastRow = row - 1;
    row += numDrafts;
    return { ...shared, lastRow, chosenRow: undefined };
  });
}
