/**
 * Decides which tokens of a step can be chosen on the device, and with which parameters. A request that wants logits or
 * has logits processors chooses on the host. Pure.
 */

import type { StepPlan } from "../plan/step-plan.ts";
import type { Sequence } from "../request/sequence.ts";
import { type ChoiceRules, MAX_BANNED_TOKENS, MAX_TOP_LOG_PROBS, type TokenChoice } from "../step-runner.ts";

export interface StepChoices {
  /** One for each row of logits of the plan, in order; undefined for a row that must be seen. */
  readonly choices: readonly (TokenChoice | undefined)[];
  /** The sequences of those that are not, in order. */
  readonly chosenFor: readonly Sequence[];
  /** Sequences whose rules are known when the token before is, by row. @see lateChoices */
  readonly late: ReadonlyMap<number, Sequence>;
}

/** @param promptRows how many rows are wanted of each sequence's prompt. @see StepBatch.fill */
export function tokenChoices(
  { sequences, queryLengths }: Pick<StepPlan, "sequences" | "queryLengths">,
  promptRows: readonly number[],
): StepChoices {
  const choices: (TokenChoice | undefined)[] = [];
  const chosenFor: Sequence[] = [];
  const late = new Map<number, Sequence>();
  for (const [i, sequence] of sequences.entries()) {
    const length = queryLengths[i] ?? 0;
    const numPromptRows = promptRows[i] ?? 0;
    const behind = numPromptRows === 0 ? choicesBehindDrafts(sequence, length) : undefined;
    const numRows = numRowsOf(sequence, length, numPromptRows);
    if (behind !== undefined) {
      choices.push(...behind);
      chosenFor.push(sequence);
    } else if (numRows !== undefined) {
      addSeen(choices, numRows);
    } else {
      if (isLate(sequence)) late.set(choices.length, sequence);
      choices.push(choiceOf(sequence));
      chosenFor.push(sequence);
    }
  }
  return { choices, chosenFor, late };
}

/** For its last token and each draft; undefined: it has no drafts in this step, or they must be seen. */
function choicesBehindDrafts(sequence: Sequence, queryLength: number): readonly TokenChoice[] | undefined {
  const numDrafts = sequence.numComputed + queryLength - sequence.numTokens;
  if (numDrafts <= 0 || !choosesBehindDrafts(sequence)) return undefined;
  return Array.from({ length: 1 + numDrafts }, (_, index) => choiceBehind(sequence, index));
}

/** Whether no rule for the token behind a draft depends on the draft, but for the masks of a run that its guide forces. */
function choosesBehindDrafts(sequence: Sequence): boolean {
  const { request, guide, rules, numPending, numOutput } = sequence;
  const isPlain = rules === undefined && numPending === 0 && !needsLogits(sequence);
  const isSteady = request.topPDecay === 1 && request.noRepeatNgramSize === 0 && request.draftAcceptanceThreshold === 0;
  if (!isPlain || !isSteady || isBeyondBans(sequence)) return false;
  if (guide === undefined) return true;
  const hasMasks = guide.maskBehind !== undefined && guide.pending === undefined;
  return hasMasks && request.badWords.length === 0 && numOutput >= request.minTokens;
}

/** How the token behind draft `index` is chosen, counted from 1; 0: behind the last token. */
function choiceBehind(sequence: Sequence, index: number): TokenChoice {
  const { guide, numOutput } = sequence;
  const mask = index === 0 ? guide?.mask : guide?.maskBehind?.(index - 1);
  const banned = guide === undefined ? bannedAt(sequence, numOutput + index) : NOTHING;
  return { ...choiceOf(sequence), index: numOutput + index, banned, mask };
}

function addSeen(choices: (TokenChoice | undefined)[], numRows: number): void {
  for (let row = 0; row < numRows; row += 1) choices.push(undefined);
}

/** Rows of logits to look at; undefined: one, whose token is chosen. */
function numRowsOf(sequence: Sequence, queryLength: number, numPromptRows: number): number | undefined {
  const contextLength = sequence.numComputed + queryLength;
  const numTokens = sequence.numTokens + sequence.numPending;
  if (numPromptRows === 0 && contextLength === numTokens && !needsLogits(sequence)) return undefined;
  const isLastSeen = numPromptRows > 0 && sequence.numTokens === sequence.promptLength;
  return numPromptRows + Math.max(0, contextLength - numTokens + (isLastSeen ? 0 : 1));
}

function needsLogits(sequence: Sequence): boolean {
  const { rules, occurrences, request } = sequence;
  const lacksTables = rules === undefined && (occurrences !== undefined || request.logitBias !== undefined);
  return lacksTables || staysOnHost(sequence);
}

/** Whether its logits are looked at by the engine, or by rules that no device has. */
function staysOnHost(sequence: Sequence): boolean {
  const { request, group, postProcess, choosesLate } = sequence;
  const isSeen = group !== undefined || request.generationLogits || request.topLogProbs > MAX_TOP_LOG_PROBS;
  return isSeen || postProcess !== undefined || (!choosesLate && needsMask(sequence));
}

/** Whether tables on the device would let it choose the sequence's tokens. */
export function gainsFromTables(sequence: Sequence): boolean {
  return !staysOnHost(sequence);
}

/** Whether rules forbid tokens that a choice cannot name. */
export function needsMask(sequence: Sequence): boolean {
  const { guide, request } = sequence;
  return guide !== undefined || request.noRepeatNgramSize > 0 || isBeyondBans(sequence);
}

function isLate(sequence: Sequence): boolean {
  return sequence.choosesLate && (sequence.request.topPDecay !== 1 || needsMask(sequence));
}

function isBeyondBans({ request, endIds }: Sequence): boolean {
  const { badWords, minTokens } = request;
  const numBanned = badWords.length + (minTokens > 0 ? endIds.length : 0);
  return numBanned > MAX_BANNED_TOKENS || badWords.some((word) => word.length !== 1);
}

const NOTHING: readonly number[] = [];

function choiceOf(sequence: Sequence): TokenChoice {
  const { request, topP, seedLow, seedHigh, numOutput, numPending } = sequence;
  const { temperature, topK, minP } = request;
  const index = numOutput + numPending;
  const banned = needsMask(sequence) ? NOTHING : bannedAt(sequence, index);
  const numTop = request.topLogProbs;
  return { temperature, topK, topP, minP, seedLow, seedHigh, index, banned, numTop, rules: rulesOf(sequence) };
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

/** Whether a step for its next token can be planned before the token before is known. */
export function isFree(sequence: Sequence): boolean {
  return (sequence.choosesLate || sequence.request.topPDecay === 1) && !needsLogits(sequence);
}

/** Whether its next step gives one row of logits at most, for itself alone: other steps can be under way meanwhile. */
export function givesOneRow({ group, numDrafts, wantsPromptRows }: Sequence): boolean {
  return group === undefined && numDrafts === 0 && !wantsPromptRows;
}
