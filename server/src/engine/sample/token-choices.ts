/**
 * Decides which tokens of a step can be chosen on the device, and with which parameters. A request that wants logits or
 * has logits processors chooses on the host. Pure.
 */

import type { StepPlan } from "../plan/step-plan.ts";
import type { Sequence } from "../request/sequence.ts";
import { MAX_BANNED_TOKENS, type TokenChoice } from "../step-runner.ts";

/**
 * One for each row of logits of the plan, in order; undefined for a row that must be seen. `promptRows`: how many rows are wanted
 * of each sequence's prompt. @see StepBatch.fill
 */
export function tokenChoices(
  { sequences, queryLengths }: Pick<StepPlan, "sequences" | "queryLengths">,
  promptRows: readonly number[],
): (TokenChoice | undefined)[] {
  const choices: (TokenChoice | undefined)[] = [];
  for (const [i, sequence] of sequences.entries()) {
    const contextLength = sequence.numComputed + (queryLengths[i] ?? 0);
    const numPromptRows = promptRows[i] ?? 0;
    const numTokens = sequence.numTokens + sequence.numPending;
    const isLastSeen = numPromptRows > 0 && sequence.numTokens === sequence.promptLength;
    const numRows = Math.max(0, contextLength - numTokens + (isLastSeen ? 0 : 1));
    if (numPromptRows === 0 && contextLength === numTokens && !needsLogits(sequence)) choices.push(choiceOf(sequence));
    else for (let row = 0; row < numPromptRows + numRows; row += 1) choices.push(undefined);
  }
  return choices;
}

function needsLogits(sequence: Sequence): boolean {
  const { request, group } = sequence;
  return group !== undefined || request.generationLogits || request.topLogProbs > 0 || hasHostRules(sequence);
}

/** Logits processors that the device does not have. */
function hasHostRules({ request, occurrences, guide, postProcess, endIds, numOutput }: Sequence): boolean {
  const { badWords, logitBias, noRepeatNgramSize, minTokens } = request;
  const numBanned = badWords.length + (numOutput < minTokens ? endIds.length : 0);
  const isBeyond = numBanned > MAX_BANNED_TOKENS || badWords.some((word) => word.length !== 1);
  const isRuled = occurrences !== undefined || guide !== undefined || postProcess !== undefined;
  return isRuled || isBeyond || logitBias !== undefined || noRepeatNgramSize > 0;
}

const NOTHING: readonly number[] = [];

function choiceOf(sequence: Sequence): TokenChoice {
  const { request, topP, seedLow, seedHigh, numOutput, numPending } = sequence;
  const { temperature, topK, minP } = request;
  const index = numOutput + numPending;
  return { temperature, topK, topP, minP, seedLow, seedHigh, index, banned: bannedAt(sequence, index) };
}

/** Tokens that may not come at this place: words of one token, and ends before the least number of tokens. */
function bannedAt({ request, endIds }: Sequence, index: number): readonly number[] {
  const { badWords, minTokens } = request;
  const isShort = index < minTokens && endIds.length > 0;
  if (badWords.length === 0 && !isShort) return NOTHING;
  const words = badWords.map((word) => word[0] ?? -1);
  return isShort ? [...words, ...endIds] : words;
}

/** Whether no token of the sequence changes how the next is chosen: a step can be planned while the token before is. */
export function isFree(sequence: Sequence): boolean {
  return sequence.request.topPDecay === 1 && !needsLogits(sequence);
}

/** Whether its next step gives one row of logits at most, for itself alone: other steps can be under way meanwhile. */
export function givesOneRow({ group, numDrafts, wantsPromptRows }: Sequence): boolean {
  return group === undefined && numDrafts === 0 && !wantsPromptRows;
}
