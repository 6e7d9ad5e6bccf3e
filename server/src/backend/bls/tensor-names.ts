/**
 * How the three models of a language-model pipeline call the same tensors. Data, and pure functions over it: knows no
 * values. A tensor whose name the engine model shares needs no entry.
 */
import type { ModelSignature } from "../../core/model-signature.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";

/** Input of the pipeline -> input of the model that makes tokens. */
export const TO_PREPROCESSING: ReadonlyMap<string, string> = new Map([
  ["text_input", "QUERY"],
  ["decoder_text_input", "DECODER_QUERY"],
  ["max_tokens", "REQUEST_OUTPUT_LEN"],
  ["bad_words", "BAD_WORDS_DICT"],
  ["stop_words", "STOP_WORDS_DICT"],
  ["embedding_bias_words", "EMBEDDING_BIAS_WORDS"],
  ["embedding_bias_weights", "EMBEDDING_BIAS_WEIGHTS"],
  ["end_id", "END_ID"],
  ["pad_id", "PAD_ID"],
  ["prompt_table_extra_id", "PROMPT_TABLE_EXTRA_ID"],
  ["image_bytes_input", "IMAGE_BYTES"],
  ["image_url_input", "IMAGE_URL"],
  ["video_bytes_input", "VIDEO_BYTES"],
]);

/** Output of the model that makes tokens -> input of the engine. */
export const PREPROCESSED: ReadonlyMap<string, string> = new Map([
  ["INPUT_ID", "input_ids"],
  ["REQUEST_INPUT_LEN", "input_lengths"],
  ["REQUEST_OUTPUT_LEN", "request_output_len"],
  ["BAD_WORDS_IDS", "bad_words_list"],
  ["STOP_WORDS_IDS", "stop_words_list"],
  ["EMBEDDING_BIAS", "embedding_bias"],
  ["OUT_END_ID", "end_id"],
  ["OUT_PAD_ID", "pad_id"],
  ["OUT_PROMPT_TABLE_EXTRA_IDS", "prompt_table_extra_ids"],
]);

/** The same for the prompt of a decoder behind an encoder, which is passed on when the client gave one. */
export const PREPROCESSED_DECODER: ReadonlyMap<string, string> = new Map([
  ["DECODER_INPUT_ID", "decoder_input_ids"],
  ["REQUEST_DECODER_INPUT_LEN", "decoder_input_lengths"],
]);

/** Output of the engine -> input of the model that makes text. Until 2024 scores and logits went the same way. */
export const TO_POSTPROCESSING: ReadonlyMap<string, string> = new Map([
  ["output_ids", "TOKENS_BATCH"],
  ["sequence_length", "SEQUENCE_LENGTH"],
  ["batch_index", "BATCH_INDEX"],
  ["sequence_index", "SEQUENCE_INDEX"],
  ["cum_log_probs", "CUM_LOG_PROBS"],
  ["output_log_probs", "OUTPUT_LOG_PROBS"],
  ["context_logits", "CONTEXT_LOGITS"],
  ["generation_logits", "GENERATION_LOGITS"],
]);

/** Outputs of the engine that are no tokens, without which this model that makes text takes no request. */
export function requiredOutputs(postprocessing: ModelSignature): string[] {
  const tokens = ["TOKENS_BATCH", "SEQUENCE_LENGTH"];
  return [...TO_POSTPROCESSING]
    .filter(([, input]) => !tokens.includes(input) && postprocessing.inputs.get(input)?.optional === false)
    .map(([output]) => output);
}

/** Input of the pipeline -> names that the engine may have for it, the likeliest first. */
const TO_ENGINE: ReadonlyMap<string, readonly string[]> = new Map([
  ["stream", ["streaming"]],
  ["top_k", ["runtime_top_k"]],
  ["top_p", ["runtime_top_p"]],
  ["top_p_min", ["runtime_top_p_min"]],
  ["top_p_decay", ["runtime_top_p_decay"]],
  ["top_p_reset_ids", ["runtime_top_p_reset_ids"]],
  ["min_p", ["runtime_min_p", "min_p"]],
  ["length_penalty", ["len_penalty"]],
  ["min_length", ["min_length", "min_tokens"]],
  ["min_tokens", ["min_tokens", "min_length"]],
  ["random_seed", ["random_seed", "seed"]],
  ["seed", ["seed", "random_seed"]],
]);

/** @throws ServerError when the engine model takes no such input */
export function engineInputOf(name: string, engine: ModelSignature): string {
  const found = (TO_ENGINE.get(name) ?? [name]).find((candidate) => engine.inputs.has(candidate));
  if (found !== undefined) return found;
  throw invalidArgument(`input '${name}' is not an input of model '${engine.modelName}'`);
}

/** The tensor as a client of `target` would send it: its name, and the dimensions that were reshaped away. */
export function renamed(tensor: Tensor, name: string, isBatched: boolean, target: ModelSignature): Tensor {
  const dims = target.inputs.get(name)?.dims ?? [];
  const rows = isBatched ? (tensor.shape[0] ?? 1) : 1;
  const given = isBatched ? tensor.shape.slice(1) : tensor.shape;
  const inner = given.length === dims.length ? given : dims.map((dim) => Math.max(1, dim));
  return { ...tensor, name, shape: target.maxBatchSize > 0 ? [rows, ...inner] : inner };
}
