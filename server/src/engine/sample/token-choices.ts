/**
 * Decides which tokens of a step can be chosen on the device, and with which parameters. A request that wants logits or
 * has logits processors chooses on the host. Pure.
 */

import type { StepPlan } from "../plan/step-plan.ts";
import type { Sequence } from "../request/sequence.ts";
import type { TokenChoice } from "../step-runner.ts";
import { needsLogitsProcessors } from "./logits-processors.ts";

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

/** Whether the device chooses every token. */
export function isEveryChosen(choices: readonly (TokenChoice | undefined)[]): choices is readonly TokenChoice[] {
  return choices.every((choice) => choice !== undefined);
}

function needsLogits(sequence: Sequence): boolean {
  const { request, group } = sequence;
  return group !== undefined || request.generationLogits || request.topLogProbs > 0 || needsLogitsProcessors(sequence);
}

function choiceOf({ request, topP, seedLow, seedHigh, numOutput, numPending }: Sequence): TokenChoice {
  const { temperature, topK, minP } = request;
  return { temperature, topK, topP, minP, seedLow, seedHigh, index: numOutput + numPending };
}

/** Whether each of its steps can be planned while the token before is being chosen: no token changes how the next is. */
export function canPlanAhead(sequence: Sequence): boolean {
  const { request } = sequence;
  const wantsRows = request.contextLogits || request.promptLogProbs || request.beamWidth > 1;
  const isChanging = request.topPDecay !== 1 || request.minTokens > 0 || request.draftTokens.length > 0;
  return !wantsRows && !isChanging && request.promptTable === undefined && !needsLogits(sequence);
}
