/**
 * Decides whether the tokens of a step can be chosen on the device, and with which parameters. They cannot when a
 * request wants logits or has logits processors. Pure.
 */

import type { StepPlan } from "../plan/step-plan.ts";
import type { Sequence } from "../request/sequence.ts";
import type { TokenChoice } from "../step-runner.ts";
import { needsLogitsProcessors } from "./logits-processors.ts";

/**
 * One for each row of logits of the plan, in order; undefined when one of them must be seen. `promptRows`: how many rows
 * are wanted of each sequence's prompt.
 */
export function tokenChoices(
  { sequences, queryLengths }: Pick<StepPlan, "sequences" | "queryLengths">,
  promptRows: readonly number[],
): TokenChoice[] | undefined {
  const choices: TokenChoice[] = [];
  for (let i = 0; i < sequences.length; i++) {
    const sequence = sequences[i];
    if (sequence === undefined) break;
    const contextLength = sequence.numComputed + (queryLengths[i] ?? 0);
    if ((promptRows[i] ?? 0) > 0) return undefined;
    const numTokens = sequence.numTokens + sequence.numPending;
    if (contextLength < numTokens) continue; // a chunk in the middle of a prompt
    if (contextLength > numTokens || needsLogits(sequence)) return undefined;
    choices.push(choiceOf(sequence));
  }
  return choices;
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
