/**
 * One row of an LLM request as the engine wants it, by the input names and defaults of TensorRT-LLM. Pure. What an input
 * asks for and this engine cannot do is refused, never ignored.
 */

import type { InferRequest } from "../../core/infer-request.ts";
import { ServerError } from "../../core/server-error.ts";
import { EMPTY_TOKENS, type GenerateRequest, type PromptTable } from "../../engine/generate.ts";
import type { LlmSettings } from "./llm-settings.ts";
import { RowInputs } from "./row-inputs.ts";

export interface LlmRow {
  readonly generate: GenerateRequest;
  readonly isStreaming: boolean;
  readonly excludeInput: boolean;
  readonly wantsPerfMetrics: boolean;
}

/** Inputs that ask for what there is not, when they carry anything. */
const UNSUPPORTED_TENSORS = [
  "draft_input_ids",
  "draft_logits",
  "lora_task_id",
  "lora_weights",
  "lora_config",
  "decoder_input_ids",
  "encoder_input_features",
  "cross_attention_mask",
  "context_phase_params",
  "guided_decoding_guide_type",
  "guided_decoding_guide",
  "mrope_rotary_cos_sin",
];
const UNSUPPORTED_FLAGS = ["return_context_logits", "return_generation_logits"];

/** @throws ServerError naming the input that is wrong or not supported */
export function readRow(request: InferRequest, row: number, numRows: number, settings: LlmSettings): LlmRow {
  const inputs = new RowInputs(request.inputs, row, numRows);
  refuseUnsupported(inputs);
  const isStreaming = inputs.flag("streaming");
  if (isStreaming && !settings.isDecoupled) {
    throw invalid("Streaming is only supported if model is deployed using decoupled mode.");
  }
  const excludes = inputs.has("exclude_input_in_output")
    ? inputs.flag("exclude_input_in_output")
    : settings.excludeInputInOutput;
  return {
    generate: readGenerate(inputs, request.signal),
    isStreaming,
    excludeInput: isStreaming || excludes,
    wantsPerfMetrics: inputs.flag("return_perf_metrics"),
  };
}

/** Whether the request, instead of asking for tokens, cancels the one with the same id. */
export function isStopRequest(request: InferRequest): boolean {
  return new RowInputs(request.inputs, 0, 1).flag("stop");
}

function readGenerate(inputs: RowInputs, signal: AbortSignal): GenerateRequest {
  const maxTokens = inputs.int("request_output_len", "max_tokens");
  if (maxTokens === undefined) throw invalid("input 'request_output_len' is missing");
  const topK = inputs.int("runtime_top_k") ?? 0;
  const topP = Math.max(0, inputs.float("runtime_top_p") ?? 0);
  return {
    promptTokens: readPrompt(inputs),
    maxTokens,
    minTokens: inputs.int("min_length", "min_tokens") ?? 1,
    endIds: (inputs.ints("end_id") ?? EMPTY_TOKENS).filter((id) => id >= 0),
    stopWords: readWords(inputs, "stop_words_list"),
    badWords: readWords(inputs, "bad_words_list"),
    temperature: inputs.float("temperature") ?? 1,
    topK: topK === 0 && topP === 0 ? 1 : topK, // neither set: greedy
    topP,
    seed: inputs.bigint("random_seed", "seed") ?? 0n, // equal requests give equal answers unless they ask otherwise
    repetitionPenalty: inputs.float("repetition_penalty") ?? 1,
    presencePenalty: inputs.float("presence_penalty") ?? 0,
    frequencyPenalty: inputs.float("frequency_penalty") ?? 0,
    promptIgnoreLength: 0,
    logitBias: inputs.has("embedding_bias") ? inputs.floats("embedding_bias") : undefined,
    logProbs: inputs.flag("return_log_probs"),
    cacheSalt: "",
    promptTable: readPromptTable(inputs),
    signal,
  };
}

/** Rows are padded on the right to the longest; `input_lengths` says what counts. */
function readPrompt(inputs: RowInputs): Int32Array {
  const ids = inputs.ints("input_ids");
  if (ids === undefined) throw invalid("input 'input_ids' is missing");
  const length = inputs.int("input_lengths") ?? ids.length;
  if (length < 0 || length > ids.length) {
    throw invalid(`input 'input_lengths' is ${length}, expected 0 to ${ids.length}, the length of 'input_ids'`);
  }
  return ids.subarray(0, length);
}

/** [2, n]: all ids in the first half, the end of each word in the second, filled up with -1. */
export function readWords(inputs: RowInputs, name: string): Int32Array[] {
  const values = inputs.ints(name);
  if (values === undefined) return [];
  if (values.length % 2 !== 0) throw invalid(`input '${name}' has ${values.length} values, expected an even number`);
  const length = values.length / 2;
  const words: Int32Array[] = [];
  let start = 0;
  for (let i = 0; i < length; i++) {
    const end = values[length + i] ?? -1;
    if (end === -1) break;
    if (end <= start || end > length) {
      throw invalid(`input '${name}': word ${i} ends at ${end}, expected an offset from ${start + 1} to ${length}`);
    }
    words.push(values.slice(start, end));
    start = end;
  }
  return words;
}

function readPromptTable(inputs: RowInputs): PromptTable | undefined {
  if (!inputs.has("prompt_embedding_table")) return undefined;
  const values = inputs.floats("prompt_embedding_table");
  const numRows = inputs.matrixRows("prompt_embedding_table");
  const declared = inputs.int("prompt_vocab_size") ?? numRows;
  if (values === undefined || declared < 0 || declared > numRows) {
    throw invalid(`input 'prompt_vocab_size' is ${declared}, expected 0 to ${numRows}, the rows of the table`);
  }
  const width = values.length / numRows;
  return { values: values.subarray(0, declared * width), numRows: declared };
}

function refuseUnsupported(inputs: RowInputs): void {
  for (const name of UNSUPPORTED_TENSORS) {
    if (inputs.has(name)) throw new ServerError("unsupported", `input '${name}' is not supported by this engine`);
  }
  for (const name of UNSUPPORTED_FLAGS) {
    if (inputs.flag(name)) throw new ServerError("unsupported", `input '${name}' is not supported by this engine`);
  }
  for (const name of ["beam_width", "num_return_sequences"]) {
    const value = inputs.int(name) ?? 1;
    if (value > 1) throw new ServerError("unsupported", `input '${name}' is ${value}: this engine supports 1 only`);
  }
}

function invalid(message: string): ServerError {
  return new ServerError("invalid_argument", message);
}
