/**
 * Tensors of a `vllm` model. Source: Triton's vllm_backend: `src/model.py`, `src/utils/request.py` and
 * `docs/additional_outputs.md`.
 */
import { bytesElements, packBytesElements } from "../../core/bytes-tensor.ts";
import type { InferRequest, ParameterValue } from "../../core/infer-request.ts";
import { isObject } from "../../core/json-object.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../engine/request/generate.ts";
import type { Tokenizer } from "../../formats/tokenizer/tokenizer.ts";
import type { ModelDescription } from "../backend.ts";
import { readCacheHints } from "../llm/read-cache-hints.ts";
import { RowInputs } from "../llm/row-inputs.ts";
import { PlainError } from "./plain-error.ts";
import type { SequenceText, TokenFigures } from "./sequence-text.ts";
import type { TextFacts, TextInterface, TextJob, TextRow } from "./text-job.ts";
import { readVllmSampling, type VllmSampling } from "./vllm-sampling.ts";

/** Each has an input `return_<name>`. */
const ASKED: readonly string[] = [
  "finish_reason",
  "cumulative_logprob",
  "logprobs",
  "num_input_tokens",
  "num_output_tokens",
];

type DataType = ModelDescription["inputs"][number]["dataType"];

/** The backend's own inputs and outputs; a configuration need not name them. */
export function vllmDescription(): ModelDescription {
  const input = (name: string, dataType: DataType, dims: readonly number[]) => ({
    name,
    dataType,
    dims,
    optional: true,
  });
  const output = (name: string, dataType: DataType, dims: readonly number[]) => ({ name, dataType, dims });
  return {
    inputs: [
      { name: "text_input", dataType: "TYPE_STRING", dims: [1] },
      input("image", "TYPE_STRING", [-1]),
      input("stream", "TYPE_BOOL", [1]),
      input("sampling_parameters", "TYPE_STRING", [1]),
      input("exclude_input_in_output", "TYPE_BOOL", [1]),
      ...ASKED.map((name) => input(`return_${name}`, "TYPE_BOOL", [1])),
      input("embedding_request", "TYPE_STRING", [1]),
    ],
    outputs: [
      output("text_output", "TYPE_STRING", [-1]),
      output("finish_reason", "TYPE_STRING", [-1]),
      output("cumulative_logprob", "TYPE_FP32", [-1]),
      output("logprobs", "TYPE_STRING", [-1]),
      output("num_input_tokens", "TYPE_UINT32", [1]),
      output("num_output_tokens", "TYPE_UINT32", [-1]),
    ],
    canBatch: false,
    maxBatchSize: 0,
    decoupled: true,
    addsTensors: true,
  };
}

/** `adapters`: names of `multi_lora.json`; undefined: LoRA is off. */
export function vllmInterface(adapters: readonly string[] | undefined): TextInterface {
  return {
    errorPrefix: "Error generating stream: ",
    takesStop: false,
    cancelLines: ["[vllm] Cancelling the request", "[vllm] Successfully cancelled the request"],
    read: (request, _row, _numRows, facts) => readJob(request, facts, adapters),
    outputs: outputTensors,
  };
}

function readJob(request: InferRequest, facts: TextFacts, adapters: readonly string[] | undefined): TextJob {
  const inputs = new RowInputs(request.inputs, 0, 1);
  refuse(inputs, facts);
  const isStreaming = inputs.flag("stream");
  const isSaid = inputs.has("exclude_input_in_output");
  const excludes = isSaid ? inputs.flag("exclude_input_in_output") : isStreaming;
  const sampling = readVllmSampling(samplingValues(request));
  expectAdapter(sampling, adapters);
  if (isStreaming && !excludes) {
    throw invalidArgument("When streaming, `exclude_input_in_output` = False is not allowed.");
  }
  const wanted = ASKED.filter((name) => inputs.flag(`return_${name}`));
  return {
    prompt: firstText(request, "text_input") ?? "",
    echo: excludes ? "none" : "text",
    isStreaming,
    numSequences: sampling.n,
    numReturned: sampling.n,
    stops: sampling.stop,
    includesStop: sampling.includesStop,
    skipsSpecialTokens: sampling.skipsSpecialTokens,
    addsSpecialTokens: true,
    wanted: new Set(wanted),
    numLogProbs: sampling.logProbs,
    generate: {
      ...NEUTRAL_REQUEST,
      ...generateOf(sampling, facts),
      logProbs: sampling.logProbs !== undefined || wanted.includes("cumulative_logprob"),
      ...readCacheHints(inputs, request.priority, facts.settings.priorityLevels),
    },
  };
}

function refuse(inputs: RowInputs, { modelName }: TextFacts): void {
  if (inputs.has("embedding_request")) {
    throw invalidArgument(`Model ${modelName} does not support 'embed' request`);
  }
  if (inputs.has("image")) {
    const advice = "serve the model with a vision encoder, as docs/vision.md says";
    throw new ServerError("unsupported", `input 'image' is not supported by this engine: ${advice}`);
  }
}

function expectAdapter({ loraName }: VllmSampling, adapters: readonly string[] | undefined): void {
  if (loraName === undefined) return;
  if (adapters === undefined) throw new PlainError("LoRA feature is not enabled.");
  if (adapters.includes(loraName)) return;
  const names = adapters.map((name) => `'${name}'`).join(", ");
  throw new PlainError(`LoRA ${loraName} is not supported, we currently support [${names}]`);
}

/** The input counts; the parameters of the request stand in for it. @throws ServerError */
function samplingValues(request: InferRequest): Readonly<Record<string, unknown>> {
  const text = firstText(request, "sampling_parameters");
  if (text === undefined || text === "") {
    return Object.fromEntries([...request.parameters].map(([name, value]) => [name, plainValue(value)]));
  }
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ServerError("invalid_argument", `input 'sampling_parameters' must be JSON: ${reason}`, { cause });
  }
  if (isObject(parsed)) return parsed;
  throw invalidArgument("input 'sampling_parameters' must be a JSON object");
}

function plainValue(value: ParameterValue): unknown {
  if (typeof value === "object") return value.double;
  return typeof value === "bigint" ? String(value) : value;
}

function generateOf(sampling: VllmSampling, { info, tokenizer, settings }: TextFacts): Partial<GenerateRequest> {
  const ends = [...(sampling.ignoresEos ? [] : settings.eosTokenIds), ...sampling.stopTokenIds];
  const { loraName: adapter } = sampling;
  return {
    maxTokens: sampling.maxTokens,
    minTokens: sampling.minTokens,
    endIds: Int32Array.from(new Set(ends)),
    badWords: sampling.badWords.flatMap((word) => wordTokens(word, tokenizer)),
    temperature: sampling.temperature,
    topK: sampling.topK,
    topP: sampling.topP,
    minP: sampling.minP,
    seed: sampling.seed,
    presencePenalty: sampling.presencePenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    repetitionPenalty: sampling.repetitionPenalty,
    logitBias: biasOf(sampling, info.vocabSize),
    // The likeliest tells the rank of the token that was chosen.
    topLogProbs: sampling.logProbs === undefined ? 0 : Math.max(1, sampling.logProbs),
    guide: sampling.guide,
    adapter: adapter === undefined ? undefined : { kind: "name", text: adapter },
  };
}

/** At the start of a text, and inside one. */
function wordTokens(word: string, tokenizer: Tokenizer): Int32Array[] {
  const texts = [...new Set([word, ` ${word.trimStart()}`])];
  return texts.map((text) => tokenizer.encode(text, { addSpecialTokens: false })).filter(({ length }) => length > 0);
}

function biasOf({ logitBias }: VllmSampling, vocabSize: number): Float32Array | undefined {
  if (logitBias.size === 0) return undefined;
  const values = new Float32Array(vocabSize);
  for (const [id, bias] of logitBias) {
    if (id >= vocabSize)
      throw invalidArgument(`logit_bias: token id ${id} is not in the vocabulary of ${vocabSize} tokens`);
    values[id] = bias;
  }
  return values;
}

function firstText({ inputs }: InferRequest, name: string): string | undefined {
  const tensor = inputs.find((input) => input.name === name);
  if (tensor === undefined) return undefined;
  if (tensor.datatype !== "BYTES") throw invalidArgument(`input '${name}' must hold strings`);
  const [first] = bytesElements(tensor);
  return first === undefined ? undefined : new TextDecoder("utf-8", { ignoreBOM: true }).decode(first);
}

/** Each response has what is new since the one before; the only one has all. */
function outputTensors([row]: readonly TextRow[], { tokenizer }: TextFacts, isWhole: boolean): Tensor[] {
  if (row === undefined) return [];
  const { job, promptTokens } = row.encoded;
  const before = isWhole && job.echo === "text" ? job.prompt : "";
  const news = row.sequences.map((sequence) => ({ sequence, ...sequence.take() }));
  const tensors = [
    texts(
      "text_output",
      news.map(({ text }) => before + text),
    ),
  ];
  const make: Readonly<Record<string, () => Tensor>> = {
    finish_reason: () => texts("finish_reason", row.sequences.map(finishText)),
    cumulative_logprob: () =>
      floats(
        "cumulative_logprob",
        row.sequences.map(({ cumLogProb }) => cumLogProb),
      ),
    logprobs: () => {
      const { numLogProbs: count } = job;
      const json = (tokens: readonly TokenFigures[]): string =>
        count === undefined ? "null" : logProbsJson(tokens, count, tokenizer);
      return texts(
        "logprobs",
        news.map(({ tokens }) => json(tokens)),
      );
    },
    num_input_tokens: () => counts("num_input_tokens", [promptTokens.length]),
    num_output_tokens: () =>
      counts(
        "num_output_tokens",
        news.map(({ numTokens }) => numTokens),
      ),
  };
  for (const name of ASKED) {
    const tensor = job.wanted.has(name) ? make[name]?.() : undefined;
    if (tensor !== undefined) tensors.push(tensor);
  }
  return tensors;
}

/** Python's name for what is not there yet. */
function finishText({ finish }: SequenceText): string {
  return finish === "cancelled" ? "abort" : (finish ?? "None");
}

/**
 * For each token the one that was chosen, then the `count` likeliest, by their ids. The rank of a chosen token that is
 * not among the likeliest is not known: null.
 */
function logProbsJson(tokens: readonly TokenFigures[], count: number, tokenizer: Tokenizer): string {
  const entry = (id: number, logprob: number, rank: number | null): readonly [string, object] => [
    String(id),
    { logprob, rank, decoded_token: tokenizer.decode([id], { skipSpecialTokens: false }) },
  ];
  const list = tokens.map(({ id, logProb, topIds, topLogProbs }) => {
    const at = topIds.indexOf(id);
    const likeliest = Array.from(topIds.subarray(0, count), (topId, i) => entry(topId, topLogProbs[i] ?? 0, i + 1));
    const others = likeliest.filter(([key]) => key !== String(id));
    const all = [entry(id, logProb, at < 0 ? null : at + 1), ...others];
    // An object would sort its keys.
    return `{${all.map(([key, value]) => `"${key}": ${JSON.stringify(value)}`).join(", ")}}`;
  });
  return `[${list.join(", ")}]`;
}

function texts(name: string, values: readonly string[]): Tensor {
  return { name, datatype: "BYTES", shape: [values.length], data: packBytesElements(values) };
}

function floats(name: string, values: readonly number[]): Tensor {
  const data = new Uint8Array(Float32Array.from(values).buffer);
  return { name, datatype: "FP32", shape: [values.length], data };
}

function counts(name: string, values: readonly number[]): Tensor {
  const data = new Uint8Array(Uint32Array.from(values).buffer);
  return { name, datatype: "UINT32", shape: [values.length], data };
}
