/**
 * The tokens that a guide forces next, on memory that a mask thread writes and the step loop reads: jump-forward decoding
 * (SGLang, Zheng et al. 2024). They are offered as draft tokens, so that one step appends all of them.
 */

/** Tokens of a run at most: a longer one goes on with the next step. */
export const MAX_FORCED = 16;

export interface ForcedRun {
  /** [1 + MAX_FORCED] Their number, then the tokens. */
  readonly tokens: Int32Array;
  /** [MAX_FORCED, ceil(vocabSize / 32)] The mask behind each of them. */
  readonly masks: Int32Array;
}

/** Pages of the masks cost no memory until a run is written there. */
export function createForcedRun(vocabSize: number): ForcedRun {
  const numWords = Math.ceil(vocabSize / 32);
  return {
    tokens: new Int32Array(new SharedArrayBuffer(4 * (1 + MAX_FORCED))),
    masks: new Int32Array(new SharedArrayBuffer(4 * MAX_FORCED * numWords)),
  };
}

/** For sessions whose runs nobody reads. */
export const NO_RUN: ForcedRun = { tokens: new Int32Array(1), masks: new Int32Array(0) };

export function forcedTokens({ tokens }: ForcedRun): Int32Array {
  return tokens.subarray(1, 1 + (tokens[0] ?? 0));
}

/** The mask behind token `index` of the run. */
export function maskBehind({ masks }: ForcedRun, index: number): Int32Array {
  const numWords = masks.length / MAX_FORCED;
  return masks.subarray(index * numWords, (index + 1) * numWords);
}
