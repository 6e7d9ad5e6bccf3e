/** How the tokens that a GPU chose lie side by side in `memory.chosen`, with what it tells of them. Pure. */
import { MAX_TOP } from "../../../kernels/sample/sample-params.ts";

/** Indices of elements of four bytes. Tokens come first. */
export interface ChoiceLayout {
  readonly logProbs: number; // f32 [numRows]
  readonly topIds: number; // i32 [numRows, MAX_TOP]
  readonly topLogProbs: number; // f32 [numRows, MAX_TOP]
  readonly length: number;
}

export const WORD_BYTES = 4;

/** @param hasTop a row wants its most likely tokens */
export function layOutChoice(numRows: number, hasTop: boolean): ChoiceLayout {
  const topIds = 2 * numRows;
  const topLogProbs = topIds + MAX_TOP * numRows;
  return { logProbs: numRows, topIds, topLogProbs, length: hasTop ? topLogProbs + MAX_TOP * numRows : topIds };
}

export function choiceBytes(numRows: number, hasTop: boolean): number {
  return WORD_BYTES * layOutChoice(numRows, hasTop).length;
}
