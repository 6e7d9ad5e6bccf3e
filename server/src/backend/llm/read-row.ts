/**
 * Reads one row of an LLM request, by the input names and defaults of TensorRT-LLM. Pure. An input that asks for an
 * unsupported feature is refused, never ignored.
 */

import type { InferRequest } from "../../core/infer-request.ts";
import { MAX_LLM_RETURN_SEQUENCES } from "../../core/limits.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { EMPTY_TOKENS, type GenerateRequest, type Guide, type PromptTable } from "../../engine/request/generate.ts";
import { readEncoded } from "./encoder-inputs.ts";
import type { LlmSettings } from "./llm-settings.ts";
import { readAdapter } from "./lora-inputs.ts";
import { readCacheHints } from "./read-cache-hints.ts";
import { RowInputs } from "./row-inputs.ts";

export interface LlmRow {
  readonly generate: GenerateRequest;
  readonly isStreaming: boolean;
  readonly excludeInput: boolean;
  readonly wantsPerfMetrics: boolean;
  /** How many cache blocks it took: a part of the former that older clients ask for alone. */
  readonly wantsCacheMetrics: boolean;
  readonly wantsInputCount: boolean;
  readonly wantsOutputCount: boolean;
  /** Independent generations, each answered for itself. The beams of a search are one. */
  readonly numSequences: number;
}

/** Inputs that ask for what there is not, when they carry anything. */
const UNSUPPORTED_TENSORS = [
  "cross_attention_mask",
  "context_phase_params",
  "mrope_rotary_cos_sin",
  "mrope_position_deltas",
];

/** @throws ServerError naming the input that is wrong or not supported */
export function readRow(request: InferRequest, row: number, numRows: number, settings: LlmSettings): LlmRow {
  const inputs = new RowInputs(request.inputs, row, numRows);
  refuseUnsupported(inputs);
  const isStreaming = inputs.flag("streaming");
  if (isStreaming && !settings.isDecoupled) {
    throw invalidArgument("Streaming is only supported if model is deployed using decoupled mode.");
  }
  const excludes = inputs.has("exclude_input_in_output")
    ? inputs.flag("exclude_input_in_output")
    : settings.excludeInputInOutput;
  const generate = {
    ...readGenerate(inputs, settings, request.signal),
    ...readCacheHints(inputs, request.priority, settings.priorityLevels),
  };
  return {
    generate,
    numSequences: generate.beamWidth > 1 ? 1 : readNumSequences(inputs, settings),
    isStreaming,
    excludeInput: isStreaming || excludes,
    wantsPerfMetrics: inputs.flag("return_perf_metrics"),
    wantsCacheMetrics: inputs.flag("return_perf_metrics") || inputs.flag("return_kv_cache_reuse_stats"),
    wantsInputCount: inputs.flag("return_num_input_tokens"),
    wantsOutputCount: inputs.flag("return_num_output_tokens"),
  };
}

/** Whether the request, instead of asking for tokens, cancels the one with the same id. */
export function isStopRequest(request: InferRequest): boolean {
  return new RowInputs(request.inputs, 0, 1).flag("stop");
}

type FromInputs = Omit<GenerateRequest, "priority" | "cacheSalt" | "retention" | "tokenSalts">;

function readGenerate(inputs: RowInputs, settings: LlmSettings, signal: AbortSignal): FromInputs {
  const maxTokens = inputs.int("request_output_len", "max_tokens");
  if (maxTokens === undefined) throw invalidArgument("input 'request_output_len' is missing");
  const prompt = readEncoded(inputs, settings.encoder, () => readPrompt(inputs));
  return {
    ...prompt,
    maxTokens,
    minTokens: inputs.int("min_length", "min_tokens") ?? 1,
    endIds: readEndIds(inputs, settings),
    stopWords: readWords(inputs, "stop_words_list"),
    badWords: readWords(inputs, "bad_words_list"),
    ...readSampling(inputs),
    ...readBeams(inputs, settings),
    repetitionPenalty: inputs.float("repetition_penalty") ?? 1,
    presencePenalty: inputs.float("presence_penalty") ?? 0,
    frequencyPenalty: inputs.float("frequency_penalty") ?? 0,
    promptIgnoreLength: inputs.int("prompt_ignore_length") ?? 0,
    noRepeatNgramSize: readNgramSize(inputs),
    logitBias: inputs.has("embedding_bias") ? inputs.floats("embedding_bias") : undefined,
    logProbs: inputs.flag("return_log_probs"),
    topLogProbs: inputs.int("num_top_log_probs") ?? 0,
    promptLogProbs: inputs.flag("return_prompt_log_probs"),
    contextLogits: inputs.flag("return_context_logits"),
    generationLogits: inputs.flag("return_generation_logits"),
    guide: readGuide(inputs),
    adapter: readAdapter(inputs),
    logitsPostProcessor: inputs.text("logits_post_processor_name") ?? "",
    promptTable: readPromptTable(inputs),
    promptPositions: readPositions(inputs, prompt.promptTokens.length),
    ...readDrafts(inputs),
    signal,
  };
}

/**
 * The model's own without a word; those given otherwise, where -1 is none. An end of the model's own stands for all of them:
 * clients and tokenizers know one, and models have several.
 */
function readEndIds(inputs: RowInputs, { eosTokenIds }: LlmSettings): Int32Array {
  const given = inputs.ints("end_id");
  if (given === undefined || given.some((id) => eosTokenIds.includes(id))) {
    return Int32Array.from(new Set([...eosTokenIds, ...(given ?? []).filter((id) => id >= 0)]));
  }
  return given.filter((id) => id >= 0);
}

type Sampling = Pick<
  GenerateRequest,
  "temperature" | "topK" | "topP" | "topPDecay" | "topPMin" | "topPResetId" | "minP" | "seed"
>;

function readSampling(inputs: RowInputs): Sampling {
  const topK = inputs.int("runtime_top_k") ?? 0;
  const topP = Math.max(0, inputs.float("runtime_top_p") ?? 0);
  const minP = inputs.float("runtime_min_p", "min_p") ?? 0;
  return {
    temperature: inputs.float("temperature") ?? 1,
    topK: topK === 0 && topP === 0 && minP === 0 ? 1 : topK, // none set: greedy
    topP,
    topPDecay: inputs.float("runtime_top_p_decay", "top_p_decay") ?? 1,
    topPMin: inputs.float("runtime_top_p_min", "top_p_min") ?? 1e-6,
    topPResetId: inputs.int("runtime_top_p_reset_ids", "top_p_reset_ids") ?? -1,
    minP,
    seed: inputs.bigint("random_seed", "seed"),
  };
}

type Beams = Pick<
  GenerateRequest,
  "beamWidth" | "numReturnBeams" | "lengthPenalty" | "earlyStopping" | "beamDiversityRate"
>;

function readBeams(inputs: RowInputs, { maxBeamWidth }: LlmSettings): Beams {
  const beamWidth = inputs.int("beam_width") ?? 1;
  if (beamWidth > maxBeamWidth) {
    throw invalidArgument(
      `input 'beam_width' is ${beamWidth}, expected at most ${maxBeamWidth}, the model's max_beam_width`,
    );
  }
  const earlyStopping = inputs.int("early_stopping") ?? 1;
  if (earlyStopping !== 0 && earlyStopping !== 1 && earlyStopping !== 2) {
    throw invalidArgument(`input 'early_stopping' is ${earlyStopping}, expected 0, 1 or 2`);
  }
  return {
    beamWidth,
    numReturnBeams: beamWidth > 1 ? (inputs.int("num_return_sequences") ?? beamWidth) : 1,
    lengthPenalty: inputs.float("len_penalty") ?? 0,
    earlyStopping,
    beamDiversityRate: inputs.float("beam_search_diversity_rate") ?? 0,
  };
}

function readNumSequences(inputs: RowInputs, { isDecoupled }: LlmSettings): number {
  const count = inputs.int("num_return_sequences") ?? 1;
  if (count < 1 || count > MAX_LLM_RETURN_SEQUENCES) {
    throw invalidArgument(`input 'num_return_sequences' is ${count}, expected 1 to ${MAX_LLM_RETURN_SEQUENCES}`);
  }
  if (count === 1 || isDecoupled) return count;
  throw invalidArgument(
    `input 'num_return_sequences' is ${count}: each sequence is a response of its own, which needs a model in decoupled mode`,
  );
}

/** Upstream's default stands for "off" and is 2^30: so is any size that no sequence reaches. */
function readNgramSize(inputs: RowInputs): number {
  return inputs.int("no_repeat_ngram_size", "noRepeatNgramSize") ?? 0;
}

/** Draft ids may be filled up with -1. `draft_logits` are not needed: tokens are drawn from the model's own distribution. */
function readDrafts(
  inputs: RowInputs,
): Pick<GenerateRequest, "draftTokens" | "draftAcceptanceThreshold" | "maxDraftTokens"> {
  const ids = inputs.ints("draft_input_ids") ?? EMPTY_TOKENS;
  const end = ids.findIndex((id) => id < 0);
  const draftTokens = end < 0 ? ids : ids.subarray(0, end);
  if (inputs.has("draft_logits") && inputs.matrixRows("draft_logits") !== ids.length) {
    throw invalidArgument(
      `input 'draft_logits' has ${inputs.matrixRows("draft_logits")} rows, expected one per draft id (${ids.length})`,
    );
  }
  const ngramSize = inputs.int("lookahead_ngram_size") ?? 0;
  return {
    draftTokens,
    draftAcceptanceThreshold: inputs.float("draft_acceptance_threshold") ?? 0,
    // The first token of an n-gram is known.
    maxDraftTokens: ngramSize > 0 ? ngramSize - 1 : -1,
  };
}

const GUIDE_TYPES = ["json", "json_schema", "regex", "ebnf_grammar", "choice", "structural_tag"] as const;

function readGuide(inputs: RowInputs): Guide | undefined {
  const name = inputs.text("guided_decoding_guide_type");
  const text = inputs.text("guided_decoding_guide");
  if (name === undefined) {
    if (text === undefined) return undefined;
    throw invalidArgument("input 'guided_decoding_guide' needs 'guided_decoding_guide_type' to say what it is");
  }
  const type = GUIDE_TYPES.find((each) => each === name);
  if (type === undefined) {
    throw invalidArgument(`input 'guided_decoding_guide_type' is '${name}', expected one of ${GUIDE_TYPES.join(", ")}`);
  }
  if (text === undefined && type !== "json")
    throw invalidArgument(`guide type '${name}' needs input 'guided_decoding_guide'`);
  return { type, text: text ?? "" };
}

/** Rows are padded on the right to the longest; `input_lengths` says what counts. */
function readPrompt(inputs: RowInputs): Int32Array {
  const ids = inputs.ints("input_ids");
  if (ids === undefined) throw invalidArgument("input 'input_ids' is missing");
  const length = inputs.int("input_lengths") ?? ids.length;
  if (length < 0 || length > ids.length) {
    throw invalidArgument(`input 'input_lengths' is ${length}, expected 0 to ${ids.length}, the length of 'input_ids'`);
  }
  return ids.subarray(0, length);
}

/** [2, n]: all ids in the first half, the end of each word in the second, filled up with -1. */
export function readWords(inputs: RowInputs, name: string): Int32Array[] {
  const values = inputs.ints(name);
  if (values === undefined) return [];
  if (values.length % 2 !== 0)
    throw invalidArgument(`input '${name}' has ${values.length} values, expected an even number`);
  const length = values.length / 2;
  const words: Int32Array[] = [];
  let start = 0;
  for (let i = 0; i < length; i++) {
    const end = values[length + i] ?? -1;
    if (end === -1) break;
    if (end <= start || end > length) {
      throw invalidArgument(
        `input '${name}': word ${i} ends at ${end}, expected an offset from ${start + 1} to ${length}`,
      );
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
    throw invalidArgument(`input 'prompt_vocab_size' is ${declared}, expected 0 to ${numRows}, the rows of the table`);
  }
  const width = values.length / numRows;
  return { values: values.subarray(0, declared * width), numRows: declared };
}

/** Padded on the right as the prompts are, within each of the three lists. */
function readPositions(inputs: RowInputs, length: number): Int32Array | undefined {
  const values = inputs.has("mrope_position_ids") ? inputs.ints("mrope_position_ids") : undefined;
  if (values === undefined || values.length === 3 * length) return values;
  const width = values.length / 3;
  if (!Number.isInteger(width) || width < length) {
    throw invalidArgument(
      `input 'mrope_position_ids' has ${values.length} numbers, expected 3 for each of ${length} prompt tokens`,
    );
  }
  return Int32Array.from({ length: 3 * length }, (_, i) => values[Math.floor(i / length) * width + (i % length)] ?? 0);
}

function refuseUnsupported(inputs: RowInputs): void {
  for (const name of UNSUPPORTED_TENSORS) {
    if (inputs.has(name)) throw new ServerError("unsupported", `input '${name}' is not supported by this engine`);
  }
}
