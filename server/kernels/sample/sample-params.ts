/** Sampling parameters of a row in the memory layout that sample.cu reads. Knows no engine. Source: sample.cu. */

export interface SampleParams {
  /** Ignored when greedy. */
  readonly temperature: number;
  /** Take the largest score: temperature 0, or top-k of 1. */
  readonly isGreedy: boolean;
  /** 0 for all. */
  readonly topK: number;
  /** 0 or 1 for all. */
  readonly topP: number;
  readonly minP: number;
  readonly seedLow: number;
  readonly seedHigh: number;
  /** Index of the token in the output: the same seed and index give the same number in any batch. */
  readonly index: number;
  readonly repetitionPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** Rows of the tables of token counts, biases and masks; -1 for none. */
  readonly countRow: number;
  readonly biasRow: number;
  readonly maskRow: number;
  /** Tokens that must not come, at most MAX_BANNED. */
  readonly banned: readonly number[];
  /** Most likely tokens to tell of, at most MAX_TOP. */
  readonly numTop: number;
}

/** Draws from the model's own distribution. */
export const NEUTRAL_SAMPLE_PARAMS: SampleParams = {
  temperature: 1,
  isGreedy: false,
  topK: 0,
  topP: 1,
  minP: 0,
  seedLow: 0,
  seedHigh: 0,
  index: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  countRow: -1,
  biasRow: -1,
  maskRow: -1,
  banned: [],
  numTop: 0,
};

/** Ends of a text that is too short, and forbidden words of one token. More of them are a mask. */
export const MAX_BANNED = 8;

/** Tokens that top-log-probs.cu tells of in one row. */
export const MAX_TOP = 20;

/** Bytes of one row's parameters. */
export const SAMPLE_PARAMS_BYTES = 100;

/** In a row of the table of counts: the token stands in the prompt or the output; the lower bits count the output. */
export const COUNT_SEEN = 0x8000;

/** Writes the parameters of row `row`; `undefined` makes it a padded row. */
export function writeSampleParams(view: DataView, row: number, params: SampleParams | undefined): void {
  const at = row * SAMPLE_PARAMS_BYTES;
  if (params === undefined) {
    for (let word = 0; word < SAMPLE_PARAMS_BYTES; word += 4) view.setUint32(at + word, 0, true);
    return;
  }
  const { temperature } = params;
  view.setFloat32(at, temperature > 0 ? 1 / temperature : 1, true);
  view.setInt32(at + 4, params.isGreedy ? 1 : 0, true);
  view.setInt32(at + 8, params.topK, true);
  view.setFloat32(at + 12, params.topP, true);
  view.setFloat32(at + 16, params.minP, true);
  view.setUint32(at + 20, params.seedLow >>> 0, true);
  view.setUint32(at + 24, params.seedHigh >>> 0, true);
  view.setInt32(at + 28, params.index, true);
  view.setFloat32(at + 32, params.repetitionPenalty, true);
  view.setFloat32(at + 36, params.presencePenalty, true);
  view.setFloat32(at + 40, params.frequencyPenalty, true);
  view.setInt32(at + 44, params.countRow, true);
  view.setInt32(at + 48, params.biasRow, true);
  view.setInt32(at + 52, params.maskRow, true);
  view.setInt32(at + 56, 1, true);
  const { banned } = params;
  if (banned.length > MAX_BANNED) throw new Error(`sample: at most ${MAX_BANNED} banned tokens, got ${banned.length}`);
  view.setInt32(at + 60, banned.length, true);
  for (const [i, id] of banned.entries()) view.setInt32(at + 64 + 4 * i, id, true);
  view.setInt32(at + 64 + 4 * MAX_BANNED, params.numTop, true);
}
