/**
 * How models call the tensors of a text request: the likeliest names first. Sources: TensorRT-LLM's
 * `inflight_batcher_llm` and `llmapi` templates, Triton's vLLM backend, and common Python models. Data.
 */

export type InputRole =
  | "tokens"
  | "tokenCount"
  | "text"
  | "maxTokens"
  | "minTokens"
  | "stream"
  | "temperature"
  | "topP"
  | "topK"
  | "minP"
  | "repetitionPenalty"
  | "presencePenalty"
  | "frequencyPenalty"
  | "seed"
  | "stop"
  | "badWords"
  | "endId"
  | "logProbs"
  | "topLogProbs"
  | "promptLogProbs"
  | "logitBias"
  | "guideType"
  | "guide"
  | "adapter"
  | "adapterPath"
  | "cacheSalt"
  | "excludesInput"
  | "wantsFinishReason"
  | "wantsPromptCount"
  | "wantsOutputCount"
  | "wantsScores"
  | "cacheStats"
  | "samplingJson"
  | "image";

/** One value of a request, and the inputs that may carry it. */
export const INPUT_NAMES: Readonly<Record<InputRole, readonly string[]>> = {
  tokens: ["input_ids"],
  tokenCount: ["input_lengths"],
  text: ["text_input", "prompt", "text", "query", "input_text", "inputs", "input", "TEXT", "PROMPT", "INPUT", "INPUT0"],
  maxTokens: ["request_output_len", "max_tokens", "max_new_tokens", "sampling_param_max_tokens"],
  minTokens: ["min_length", "min_tokens"],
  stream: ["streaming", "stream"],
  temperature: ["temperature", "sampling_param_temperature"],
  topP: ["runtime_top_p", "top_p", "sampling_param_top_p"],
  topK: ["runtime_top_k", "top_k", "sampling_param_top_k"],
  minP: ["runtime_min_p", "min_p"],
  repetitionPenalty: ["repetition_penalty", "sampling_param_repetition_penalty"],
  presencePenalty: ["presence_penalty", "sampling_param_presence_penalty"],
  frequencyPenalty: ["frequency_penalty", "sampling_param_frequency_penalty"],
  seed: ["random_seed", "seed", "sampling_param_seed"],
  stop: ["stop_words", "stop", "sampling_param_stop"],
  badWords: ["bad_words"],
  endId: ["end_id"],
  logProbs: ["return_log_probs"],
  topLogProbs: ["num_top_log_probs"],
  promptLogProbs: ["return_prompt_log_probs"],
  logitBias: ["embedding_bias"],
  guideType: ["guided_decoding_guide_type"],
  guide: ["guided_decoding_guide"],
  adapter: ["lora_name"],
  adapterPath: ["lora_path"],
  cacheSalt: ["cache_salt"],
  excludesInput: ["exclude_input_in_output", "sampling_param_exclude_input_from_output"],
  wantsFinishReason: ["return_finish_reason"],
  wantsPromptCount: ["return_num_input_tokens"],
  wantsOutputCount: ["return_num_output_tokens"],
  wantsScores: ["return_logprobs"],
  cacheStats: ["return_kv_cache_reuse_stats"],
  samplingJson: ["sampling_parameters"],
  image: ["image", "images", "IMAGE", "image_bytes", "IMAGES"],
};

export type OutputRole =
  | "tokens"
  | "tokenCounts"
  | "text"
  | "logProbs"
  | "topIds"
  | "topLogProbs"
  | "promptLogProbs"
  | "promptTopIds"
  | "promptTopLogProbs"
  | "reusedBlocks"
  | "totalBlocks"
  | "scoresJson"
  | "finishReason"
  | "numPromptTokens"
  | "numOutputTokens";

export const OUTPUT_NAMES: Readonly<Record<OutputRole, readonly string[]>> = {
  tokens: ["output_ids"],
  tokenCounts: ["sequence_length"],
  text: ["text_output", "output", "text", "generated_text", "output_text", "response", "TEXT", "OUTPUT", "OUTPUT0"],
  logProbs: ["output_log_probs"],
  topIds: ["top_log_prob_ids"],
  topLogProbs: ["top_log_probs"],
  promptLogProbs: ["prompt_log_probs"],
  promptTopIds: ["prompt_top_log_prob_ids"],
  promptTopLogProbs: ["prompt_top_log_probs"],
  reusedBlocks: ["kv_cache_reused_blocks"],
  totalBlocks: ["kv_cache_alloc_total_blocks"],
  scoresJson: ["logprobs"],
  finishReason: ["finish_reason"],
  numPromptTokens: ["num_input_tokens", "prompt_tokens"],
  numOutputTokens: ["num_output_tokens", "completion_tokens"],
};

/** A flag or a number may have the name of a list of texts: `stop` of TensorRT-LLM's models ends a request. */
export const TEXT_ROLES: ReadonlySet<string> = new Set<InputRole>(["stop", "badWords", "samplingJson"]);

/** The LLM API's streams hold the whole text so far; this input shows such a model. */
export const ACCUMULATING_INPUT = "sampling_param_max_tokens";

/** Inputs that take JSON text of the request as it came, for models that do their own templates. */
export const JSON_INPUTS: readonly string[] = ["messages", "tools", "tool_choice", "response_format", "user"];

/** Inputs by which a model shows that it samples. */
export const SAMPLING_ROLES: readonly InputRole[] = [
  "temperature",
  "topP",
  "topK",
  "minP",
  "repetitionPenalty",
  "presencePenalty",
  "frequencyPenalty",
  "seed",
];
