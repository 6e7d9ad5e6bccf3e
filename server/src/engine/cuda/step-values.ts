/** A GPU runner's requirements for a step, and the values of a step as the device reads them. Pure. */
import type { ElemType } from "../../../kernels/cuda/launch-args.ts";
import { type SampleParams, writeSampleParams } from "../../../kernels/sample/sample-params.ts";
import { convertFloats } from "../../device/cuda/convert-floats.ts";
import { CHOICE_WORDS } from "../../models/cuda/step-layout.ts";
import type { StepInput, TokenChoice } from "../step-runner.ts";

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
  for (let row = 0; row < numRows; row++) {
    const choice = choices[row];
    writeSampleParams(view, row, choice === undefined ? undefined : paramsOf(choice));
  }
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

const params: Mutable<SampleParams> = {
  temperature: 0,
  isGreedy: true,
  topK: 0,
  topP: 0,
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
};

/** Good until the next call. */
function paramsOf(choice: TokenChoice): SampleParams {
  params.temperature = choice.temperature;
  params.isGreedy = choice.temperature === 0 || choice.topK === 1;
  params.topK = choice.topK;
  params.topP = choice.topP;
  params.minP = choice.minP;
  params.seedLow = choice.seedLow;
  params.seedHigh = choice.seedHigh;
  params.index = choice.index;
  params.banned = choice.banned;
  params.repetitionPenalty = choice.rules?.repetitionPenalty ?? 1;
  params.presencePenalty = choice.rules?.presencePenalty ?? 0;
  params.frequencyPenalty = choice.rules?.frequencyPenalty ?? 0;
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
