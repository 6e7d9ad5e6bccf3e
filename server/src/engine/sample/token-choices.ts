/**
 * Decides which tokens of a step can be chosen on the device, and with which parameters. A request that wants logits or
 * has logits processors chooses on the host. Pure.
 */

import type { StepPlan } from "../plan/step-plan.ts";
import type { Sequence } from "../request/sequence.ts";
import { type ChoiceRules, MAX_BANNED_TOKENS, type TokenChoice } from "../step-runner.ts";

export interface StepChoices {
  /** One for each row of logits of the plan, in order; undefined for a row that must be seen. */
  readonly choices: readonly (TokenChoice | undefined)[];
  /** The sequences of those that are not, in order. */
  readonly chosenFor: readonly Sequence[];
}

/** @param promptRows how many rows are wanted of each sequence's prompt. @see StepBatch.fill */
export function tokenChoices(
  { sequences, queryLengths }: Pick<StepPlan, "sequences" | "queryLengths">,
  promptRows: readonly number[],
): StepChoices {
  const choices: (TokenChoice | undefined)[] = [];
  const chosenFor: Sequence[] = [];
  for (const [i, sequence] of sequences.entries()) {
    const contextLength = sequence.numComputed + (queryLengths[i] ?? 0);
    const numPromptRows = promptRows[i] ?? 0;
    const numTokens = sequence.numTokens + sequence.numPending;
    const isLastSeen = numPromptRows > 0 && sequence.numTokens === sequence.promptLength;
    const numRows = Math.max(0, contextLength - numTokens + (isLastSeen ? 0 : 1));
    if (numPromptRows === 0 && contextLength === numTokens && !needsLogits(sequence)) {
      choices.push(choiceOf(sequence));
      chosenFor.push(sequence);
    } else {
      for (let row = 0; row < numPromptRows + numRows; row += 1) choices.push(undefined);
    }
  }
  return { choices, chosenFor };
}

function needsLogits(sequence: Sequence): boolean {
  const { rules, occurrences, request } = sequence;
  const lacksTables = rules === undefined && (occurrences !== undefined || request.logitBias !== undefined);
  return lacksTables || staysOnHost(sequence) || isBeyondBans(sequence);
}

/** Whether its logits are looked at by the engine, or by rules that no device has. */
function staysOnHost({ request, group, guide, postProcess }: Sequence): boolean {
  const isSeen = group !== undefined || request.generationLogits || request.topLogProbs > 0;
  return isSeen || guide !== undefined || postProcess !== undefined || request.noRepeatNgramSize > 0;
}

/** Whether tables on the device would let it choose the sequence's tokens. */
export function gainsFromTables(sequence: Sequence): boolean {
  return !staysOnHost(sequence);
}

/** Forbidden tokens that a choice has no room for. */
function isBeyondBans({ request, endIds, numOutput }: Sequence): boolean {
  const { badWords, minTokens } = request;
  const numBanned = badWords.length + (numOutput < minTokens ? endIds.length : 0);
  return numBanned > MAX_BANNED_TOKENS || badWords.some((word) => word.length !== 1);
}

const NOTHING: readonly number[] = [];

function choiceOf(sequence: Sequence): TokenChoice {
  const { request, topP, seedLow, seedHigh, numOutput, numPending } = sequence;
  const { temperature, topK, minP } = request;
  const index = numOutput + numPending;
  const banned = bannedAt(sequence, index);
  return { temperature, topK, topP, minP, seedLow, seedHigh, index, banned, rules: rulesOf(sequence) };
}

function rulesOf({ rules, request }: Sequence): ChoiceRules | undefined {
  if (rules === undefined) return undefined;
  const { countRow, biasRow } = rules;
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = request;
  return { countRow, biasRow, repetitionPenalty, presencePenalty, frequencyPenalty };
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
