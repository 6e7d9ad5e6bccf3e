/** Tensor names of the models that serve a vision-language model: prompt and language model. Pure. */
import type { VisionModel } from "./vision-model.ts";

/** Callers after those they call. */
export const VISION_MODELS = [
  "image_preprocessing",
  "vision_encoder",
  "vlm_preprocessing",
  "vision_llm",
  "vlm_postprocessing",
  "vlm",
] as const;
export type VisionModelName = (typeof VISION_MODELS)[number];

export const SCALAR = "reshape: { shape: [ ] }";
export const OPTIONAL: string = `${SCALAR} optional: true`;
/** Language model inputs that clients may give, by name in the ensemble. */
const CHOICES: readonly (readonly [input: string, name: string, type: string])[] = [
  ["temperature", "temperature", "FP32"],
  ["runtime_top_k", "top_k", "INT32"],
  ["runtime_top_p", "top_p", "FP32"],
  ["seed", "seed", "UINT64"],
];
const STREAM = ["streaming", "stream", "BOOL"] as const;
/** Outputs of the prompt, and the inputs of the language model that take them. */
const PROMPT: readonly (readonly [output: string, input: string, type: string, dims: string, more: string])[] = [
  ["INPUT_ID", "input_ids", "INT32", "-1", "allow_ragged_batch: true"],
  ["REQUEST_INPUT_LEN", "input_lengths", "INT32", "1", SCALAR],
  ["REQUEST_OUTPUT_LEN", "request_output_len", "INT32", "1", ""],
  ["OUT_END_ID", "end_id", "INT32", "1", OPTIONAL],
  ["PROMPT_EMBEDDING_TABLE", "prompt_embedding_table", "FP16", "-1, -1", "allow_ragged_batch: true optional: true"],
  ["PROMPT_VOCAB_SIZE", "prompt_vocab_size", "INT32", "1", OPTIONAL],
];
const POSITIONS = [
  "MROPE_POSITION_IDS",
  "mrope_position_ids",
  "INT32",
  "3, -1",
  "allow_ragged_batch: true optional: true",
] as const;

export function promptOutputs({ hasPositions }: VisionModel): typeof PROMPT {
  return hasPositions ? [...PROMPT, POSITIONS] : PROMPT;
}

export function choices(isDecoupled: boolean): typeof CHOICES {
  return isDecoupled ? [...CHOICES, STREAM] : CHOICES;
}
