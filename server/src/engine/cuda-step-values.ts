/** What a runner on a GPU asks of a step, and the values of a step as the device reads them. Pure. */
import type { ElemType } from "../../kernels/cuda/launch-args.ts";
import { writeSampleParams } from "../../kernels/sample/sample-params.ts";
import { convertFloats } from "../device/cuda/convert-floats.ts";
import { CHOICE_WORDS } from "../models/cuda-step-layout.ts";
import type { StepInput, TokenChoice } from "./step-runner.ts";

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

/** The rows behind the last are those that only make up the number. */
export function packChoices(choices: readonly TokenChoice[], numRows: number, values: Int32Array, at: number): void {
  const view = new DataView(values.buffer, values.byteOffset + 4 * at, 4 * CHOICE_WORDS * numRows);
  for (let row = 0; row < numRows; row++) {
    const choice = choices[row];
    writeSampleParams(view, row, choice && { ...NO_RULES, ...choice, isGreedy: isGreedy(choice) });
  }
}

const NO_RULES = {
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  countRow: -1,
  biasRow: -1,
  maskRow: -1,
} as const;

function isGreedy({ temperature, topK }: TokenChoice): boolean {
  return temperature === 0 || topK === 1;
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
