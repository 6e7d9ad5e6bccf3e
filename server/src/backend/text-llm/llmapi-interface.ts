/**
 * Tensors of an `llmapi` model. Source: TensorRT-LLM, `triton_backend/all_models/llmapi/tensorrt_llm`: config.pbtxt,
 * 1/model.py and 1/helpers.py; defaults are those of `SamplingParams` of the LLM API.
 */
import { bytesElements, packBytesElements } from "../../core/bytes-tensor.ts";
import type { InferRequest } from "../../core/infer-request.ts";
import { MAX_LLM_RETURN_SEQUENCES } from "../../core/limits.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { AdapterChoice } from "../../engine/adapters/adapter-choice.ts";
import { type GenerateRequest, NEUTRAL_REQUEST, type Usage } from "../../engine/request/generate.ts";
import { readCacheHints } from "../llm/read-cache-hints.ts";
import { RowInputs } from "../llm/row-inputs.ts";
import type { SequenceText } from "./sequence-text.ts";
import type { TextFacts, TextInterface, TextJob, TextRow } from "./text-job.ts";

const DEFAULT_MAX_TOKENS = 32;
/** Outputs that a request asks for, with the input that asks. */
const ASKED: readonly (readonly [input: string, output: string])[] = [
  ["return_finish_reason", "finish_reason"],
  ["return_stop_reason", "stop_reason"],
  ["return_cumulative_logprob", "cumulative_logprob"],
];
const PERF_INPUT = "sampling_param_return_perf_metrics";

export const LLMAPI_INTERFACE: TextInterface = {
  errorPrefix: "Error generating request: ",
  takesStop: true,
  cancelLines: [],
  read: readJob,
  outputs: outputTensors,
};

function readJob(request: InferRequest, row: number, numRows: number, facts: TextFacts): TextJob {
  const inputs = new RowInputs(request.inputs, row, numRows);
  const isStreaming = inputs.flag("streaming");
  if (isStreaming && !facts.settings.isDecoupled) {
    throw invalidArgument("Streaming is only supported in decoupled mode.");
  }
  if (inputs.has("image_url")) {
    throw new ServerError("unsupported", "input 'image_url' needs a model of its own: see docs/vision.md");
  }
  const bestOf = readBestOf(inputs, isStreaming);
  const wanted = ASKED.filter(([input]) => inputs.flag(input)).map(([, output]) => output);
  const wantsPerfMetrics = inputs.flag(PERF_INPUT);
  return {
    prompt: textsOf(request, "text_input", row, numRows)[0] ?? "",
    echo: isStreaming || inputs.flag("sampling_param_exclude_input_from_output") ? "none" : "tokens",
    isStreaming,
    numSequences: bestOf,
    numReturned: 1,
    stops: textsOf(request, "sampling_param_stop", row, numRows),
    includesStop: false,
    skipsSpecialTokens: true,
    addsSpecialTokens: true,
    wanted: new Set([...wanted, ...(wantsPerfMetrics ? PERF_OUTPUTS.keys() : [])]),
    generate: {
      ...NEUTRAL_REQUEST,
      ...readSampling(inputs, bestOf),
      maxTokens: inputs.int("sampling_param_max_tokens") ?? DEFAULT_MAX_TOKENS,
      endIds: Int32Array.from(facts.settings.eosTokenIds),
      presencePenalty: inputs.float("sampling_param_presence_penalty") ?? 0,
      frequencyPenalty: inputs.float("sampling_param_frequency_penalty") ?? 0,
      logProbs: bestOf > 1 || wanted.includes("cumulative_logprob"),
      adapter: readAdapter(inputs),
      logitsPostProcessor: inputs.text("sampling_param_logits_post_processor_name") ?? "",
      ...readCacheHints(inputs, request.priority, facts.settings.priorityLevels),
    },
  };
}

function readBestOf(inputs: RowInputs, isStreaming: boolean): number {
  const bestOf = inputs.int("sampling_param_best_of") ?? 1;
  if (bestOf < 1 || bestOf > MAX_LLM_RETURN_SEQUENCES) {
    throw invalidArgument(`input 'sampling_param_best_of' is ${bestOf}, expected 1 to ${MAX_LLM_RETURN_SEQUENCES}`);
  }
  if (bestOf === 1 || !isStreaming) return bestOf;
  throw invalidArgument(
    `input 'sampling_param_best_of' is ${bestOf}: the best is known at the end, so it cannot stream`,
  );
}

/** Without temperature, top-k and top-p the answer is greedy; one of them alone leaves the others open. */
function readSampling(
  inputs: RowInputs,
  bestOf: number,
): Pick<GenerateRequest, "temperature" | "topK" | "topP" | "seed"> {
  const temperature = inputs.float("sampling_param_temperature");
  const topK = inputs.int("sampling_param_top_k");
  const topP = inputs.float("sampling_param_top_p");
  const isSaid = [temperature, topK, topP].some((value) => value !== undefined);
  const isGreedy = !isSaid || temperature === 0 || topK === 1 || topP === 0;
  if (isGreedy && bestOf > 1) {
    const text = `Greedy decoding in the LLM API does not allow multiple returns. Please set to best_of=1, got best_of=${bestOf}`;
    throw invalidArgument(text);
  }
  const seed = inputs.bigint("sampling_param_seed");
  if (isGreedy) return { temperature: 1, topK: 1, topP: 0, seed };
  return { temperature: temperature ?? 1, topK: topK ?? 0, topP: topP ?? 1, seed };
}

/** Source: helpers.py, `get_lora_request_from_request`. The number is not needed: the folder names the adapter. */
function readAdapter(inputs: RowInputs): AdapterChoice | undefined {
  const id = inputs.bigint("lora_id");
  const name = inputs.text("lora_name");
  const path = inputs.text("lora_path");
  if (id === undefined && name === undefined && path === undefined) return undefined;
  // OpenAI's model names and older clients give one of the two.
  if (id === undefined && name !== undefined && path === undefined) return { kind: "name", text: name };
  if (id === undefined && name === undefined && path !== undefined) return { kind: "path", text: path };
  if (id === undefined || name === undefined || path === undefined) {
    throw invalidArgument("lora_id, lora_name, and lora_path must all be provided together");
  }
  const source = inputs.text("lora_ckpt_source") ?? "hf";
  if (source !== "hf") throw invalidArgument(`lora_ckpt_source must be 'hf' on this engine, got '${source}'`);
  return { kind: "path", text: path };
}

/** Elements of a text input in a row; none when it is absent. */
export function textsOf(request: InferRequest, name: string, row: number, numRows: number): string[] {
  const tensor = request.inputs.find((input) => input.name === name);
  if (tensor === undefined) return [];
  if (tensor.datatype !== "BYTES") throw invalidArgument(`input '${name}' must hold strings`);
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const all = bytesElements(tensor);
  const width = Math.floor(all.length / numRows);
  return all.slice(row * width, (row + 1) * width).map((bytes) => decoder.decode(bytes));
}

/**
 * All outputs are texts, numbers too: model.py sends them so, whatever config.pbtxt declares, and clients read what they
 * get. A stream gives the whole text so far each time.
 */
function outputTensors(rows: readonly TextRow[], { isBatching }: TextFacts): Tensor[] {
  const tensor = (name: string, read: (sequence: SequenceText) => string): Tensor => {
    const texts = rows.flatMap(({ sequences }) => sequences.map(read));
    const width = texts.length / rows.length;
    const shape = isBatching ? [rows.length, width] : [width];
    return { name, datatype: "BYTES", shape, data: packBytesElements(texts) };
  };
  const wanted = rows[0]?.encoded.job.wanted ?? new Set();
  const tensors = [tensor("text_output", ({ text }) => text)];
  for (const [name, read] of FIGURES) if (wanted.has(name)) tensors.push(tensor(name, read));
  for (const [name, read] of PERF_OUTPUTS) {
    if (wanted.has(name)) tensors.push(tensor(name, ({ usage }) => read(usage ?? NO_USAGE)));
  }
  return tensors;
}

/** Python's name for what is not there. */
const NONE = "None";

const FIGURES: ReadonlyMap<string, (sequence: SequenceText) => string> = new Map([
  ["finish_reason", ({ finish }) => finish ?? NONE],
  ["stop_reason", ({ stop }) => stop ?? NONE],
  ["cumulative_logprob", ({ cumLogProb }) => asFloat(cumLogProb)],
]);

const NO_USAGE: Usage = {
  promptTokens: 0,
  outputTokens: 0,
  reusedBlocks: 0,
  newBlocks: 0,
  draftTokens: 0,
  acceptedDraftTokens: 0,
  arrivalNs: 0,
  firstScheduledNs: 0,
  firstTokenNs: 0,
  lastTokenNs: 0,
};

const PERF_OUTPUTS: ReadonlyMap<string, (usage: Usage) => string> = new Map([
  ["kv_cache_reused_block", ({ reusedBlocks }) => String(reusedBlocks)],
  ["kv_cache_hit_rate", (usage) => asFloat(hitRate(usage))],
  ["kv_cache_alloc_new_blocks", ({ newBlocks }) => String(newBlocks)],
  ["kv_cache_alloc_total_blocks", ({ newBlocks, reusedBlocks }) => String(newBlocks + reusedBlocks)],
  ["kv_cache_missed_block", ({ newBlocks }) => String(newBlocks)],
  ["arrival_time_ns", ({ arrivalNs }) => asInteger(arrivalNs)],
  ["first_scheduled_time_ns", ({ firstScheduledNs }) => asInteger(firstScheduledNs)],
  ["first_token_time_ns", ({ firstTokenNs }) => asInteger(firstTokenNs)],
  ["last_token_time_ns", ({ lastTokenNs }) => asInteger(lastTokenNs)],
  ["acceptance_rate", ({ draftTokens, acceptedDraftTokens: accepted }) => asFloat(share(accepted, draftTokens))],
  ["total_accepted_draft_tokens", ({ acceptedDraftTokens }) => String(acceptedDraftTokens)],
  ["total_draft_tokens", ({ draftTokens }) => String(draftTokens)],
]);

function hitRate({ reusedBlocks, newBlocks }: Usage): number {
  return share(reusedBlocks, reusedBlocks + newBlocks);
}

function share(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

function asInteger(value: number): string {
  return String(BigInt(Math.round(value)));
}

/** Python writes the point of a whole number. */
function asFloat(value: number): string {
  return Number.isInteger(value) ? value.toFixed(1) : String(value);
}
