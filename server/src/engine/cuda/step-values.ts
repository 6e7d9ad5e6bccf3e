/** A GPU runner's requirements for a step, and the values of a step as the device reads them. Pure. */
import type { ElemType } from "../../../kernels/cuda/launch-args.ts";
import {
  MAX_TOP,
  NEUTRAL_SAMPLE_PARAMS,
  type SampleParams,
  writeSampleParams,
} from "../../../kernels/sample/sample-params.ts";
import { convertFloats } from "../../device/cuda/convert-floats.ts";
import type { PinnedBuffer } from "../../device/cuda/cuda-memory.ts";
import { layOutChoice } from "../../models/cuda/choice-layout.ts";
import type { CudaBatch } from "../../models/cuda/pass.ts";
import { CHOICE_WORDS } from "../../models/cuda/step-layout.ts";
import type { ChosenTokens, StepInput, TokenChoice } from "../step-runner.ts";

export function countQueries({ sequences }: StepInput): {
  readonly numDecoding: number;
  readonly maxQueryLength: number;
} {
  let numDecoding = 0;
  while (sequences[numDecoding]?.queryLength === 1) numDecoding += 1;
  let maxQueryLength = 1;
  for (const { queryLength } of sequences) maxQueryLength = Math.max(maxQueryLength, queryLength);
  return { numDecoding, maxQueryLength };
}

/** Every sequence adds one token and wants its logits. */
export function isDecodeStep(input: StepInput): boolean {
  const { tokenIds, sequences, embeddings } = input;
  return tokenIds.length === sequences.length && embeddings === undefined && keepsRows(input);
}

export function keepsRows({ tokenIds, logitRows }: StepInput): boolean {
  return logitRows.length === tokenIds.length && logitRows.every((row, i) => row === i);
}

/** Rows behind the last only make up the number; they and rows without a choice are left out. Nothing is made anew for a row. */
export function packChoices(
  choices: readonly (TokenChoice | undefined)[],
  numRows: number,
  values: Int32Array,
  at: number,
): void {
  const view = new DataView(values.buffer, values.byteOffset + 4 * at, 4 * CHOICE_WORDS * numRows);
  let numMasks = 0;
  for (let row = 0; row < numRows; row++) {
    const choice = choices[row];
    const maskRow = choice?.mask === undefined ? -1 : numMasks++;
    writeSampleParams(view, row, choice === undefined ? undefined : paramsOf(choice, maskRow));
  }
}

/** Masks of the choices that have one, in order. */
export function masksOf(choices: readonly (TokenChoice | undefined)[]): readonly Int32Array[] {
  return choices.flatMap((choice) => choice?.mask ?? []);
}

export function wantsTop(choices: readonly (TokenChoice | undefined)[]): boolean {
  return choices.some((choice) => choice !== undefined && choice.numTop > 0);
}

/** Tokens that a step chose for `count` rows, of those that it was rounded up to; no batch: it computed nothing. */
export function chosenTokens(
  { bytes: { buffer, byteOffset } }: Pick<PinnedBuffer, "bytes">,
  count: number,
  { numChoices, hasTop }: Pick<CudaBatch, "numChoices" | "hasTop"> = { numChoices: 0, hasTop: false },
): Omit<ChosenTokens, "logits"> {
  const layout = layOutChoice(numChoices, hasTop);
  const ints = (first: number, length: number): Int32Array => new Int32Array(buffer, byteOffset + 4 * first, length);
  const floats = (first: number, length: number): Float32Array =>
    new Float32Array(buffer, byteOffset + 4 * first, length);
  const numTop = MAX_TOP * count;
  const top = hasTop ? { ids: ints(layout.topIds, numTop), logProbs: floats(layout.topLogProbs, numTop) } : undefined;
  return { tokens: ints(0, count), logProbs: floats(layout.logProbs, count), top };
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

const params: Mutable<SampleParams> = { ...NEUTRAL_SAMPLE_PARAMS };

/** Good until the next call. */
function paramsOf(choice: TokenChoice, maskRow: number): SampleParams {
  params.temperature = choice.temperature;
  params.isGreedy = choice.temperature === 0 || choice.topK === 1;
  params.topK = choice.topK;
  params.topP = choice.topP;
  params.minP = choice.minP;
  params.seedLow = choice.seedLow;
  params.seedHigh = choice.seedHigh;
  params.index = choice.index;
  params.banned = choice.banned;
  params.numTop = choice.numTop;
  params.repetitionPenalty = choice.rules?.repetitionPenalty ?? 1;
  params.presencePenalty = choice.rules?.presencePenalty ?? 0;
  params.frequencyPenalty = choice.rules?.frequencyPenalty ?? 0;
  params.maskRow = maskRow;
  params.countRow = choice.rules?.countRow ?? -1;
  params.biasRow = choice.rules?.biasRow ?? -1;
  return params;
}

export function storedValues(values: Float32Array, type: ElemType): Float32Array | Uint16Array {
  if (type === "f32") return values;
  const stored = new Uint16Array(values.length);
  convertFloats(
    "F32",
    new Uint8Array(values.buffer, values.byteOffset, values.byteLength),
    "bf16",
    new Uint8Array(stored.buffer),
  );
  return stored;
}
