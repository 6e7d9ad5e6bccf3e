/**
 * How many tokens prompts may take in a step: chunked prefill beside decoding (Sarathi-Serve, Agrawal et al. 2024). A step
 * takes as long as its tokens, and all that decode wait for it.
 */
import type { Sequence } from "../request/sequence.ts";

/** Prompt tokens beside sequences that decode. They fill a large GPU; more would only delay the tokens of the others. */
const PROMPT_TOKENS_BESIDE = 2048;
/** Long queues are worked off in larger steps: a step takes a quarter of them. */
const QUEUE_SHARE = 4;

type Counted = Pick<Sequence, "numToCompute">;

/**
 * At least 1.
 * @param maxBatchTokens of the step, those of decoding sequences included
 */
export function promptBudget(maxBatchTokens: number, running: readonly Counted[], waiting: readonly Counted[]): number {
  let numDecoding = 0;
  let numQueued = 0;
  for (const { numToCompute } of running) {
    if (numToCompute === 1) numDecoding += 1;
    else numQueued += numToCompute;
  }
  for (const { numToCompute } of waiting) numQueued += numToCompute;
  const free = Math.max(1, maxBatchTokens - numDecoding);
  if (numDecoding === 0) return free;
  return Math.min(free, Math.max(PROMPT_TOKENS_BESIDE, Math.ceil(numQueued / QUEUE_SHARE)));
}
