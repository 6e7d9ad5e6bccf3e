/**
 * How many cache blocks a sequence needs when every layer sees only a window of its last tokens: blocks before the
 * window of the next query are given back. Pure numbers.
 */

export interface WindowRules {
  readonly blockSize: number;
  /** Keys that a query sees at most, its own included; undefined when a layer sees them all. */
  readonly window: number | undefined;
  readonly maxBatchTokens: number;
  readonly chunkedPrefill: boolean;
}

/** The first block that a query at position `numComputed` still sees. */
export function firstBlockSeen(numComputed: number, { window, blockSize }: WindowRules): number {
  return window === undefined ? 0 : Math.floor(Math.max(0, numComputed - window + 1) / blockSize);
}

/** Blocks that a sequence holds at most at a time, `numTokens` being all it ever computes. */
export function peakBlocks(numTokens: number, rules: WindowRules): number {
  const all = Math.ceil(numTokens / rules.blockSize);
  if (rules.window === undefined) return all;
  const seen = rules.window - 1 + longestChunk(numTokens, rules);
  return Math.min(all, Math.ceil(seen / rules.blockSize) + 1);
}

/** Tokens of one sequence that one step computes at most. */
export function longestChunk(numTokens: number, { maxBatchTokens, chunkedPrefill }: WindowRules): number {
  return chunkedPrefill ? Math.min(maxBatchTokens, numTokens) : numTokens;
}

/** The longest sequence that can run to its end, alone: prompt and output, of which the last token is never computed. */
export function longestSequence(maxPositions: number, numBlocks: number, rules: WindowRules): number {
  const fitting = numBlocks * rules.blockSize;
  return fitting < maxPositions && peakBlocks(maxPositions, rules) > numBlocks ? fitting : maxPositions;
}
