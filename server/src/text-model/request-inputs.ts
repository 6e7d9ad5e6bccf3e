/**
 * The tensors of a text request for one model. A field that the model has no input for is refused by name; a model
 * without any sampling input does not sample, and ignores those fields. Pure.
 */
import type { TensorMetadata } from "../core/model-server.ts";
import type { Tensor } from "../core/tensor.ts";
import { type TextField, unsupportedField } from "./field-error.ts";
import { textsTensor, valuesTensor } from "./input-tensors.ts";
import { type InputRole, SAMPLING_ROLES } from "./tensor-names.ts";
import type { Sampling, TextRequest } from "./text-request.ts";
import type { TextSignature } from "./text-signature.ts";

export interface InputFacts {
  readonly model: string;
  readonly signature: TextSignature;
  readonly defaults: Sampling;
  /** Output tokens at most; undefined: the model decides. */
  readonly maxTokens: number | undefined;
  readonly isStreaming: boolean;
}

const FORMAT_INPUT = "response_format";

type Numeric = number | bigint | boolean;

export class InputList {
  readonly tensors: Tensor[] = [];
  readonly #facts: InputFacts;

  constructor(facts: InputFacts) {
    this.#facts = facts;
  }

  has(role: InputRole): boolean {
    return this.#facts.signature.inputs.has(role);
  }

  /** Sets the input where the model has one. */
  offer(role: InputRole, ...values: Numeric[]): void {
    const input = this.#input(role);
    if (input !== undefined) this.values(input, values);
  }

  /** @throws FieldError when the model has no such input */
  require(role: InputRole, field: TextField, values: ArrayLike<Numeric>): void {
    this.values(this.#expect(role, field), values);
  }

  /** @throws FieldError when the model has no such input */
  requireText(role: InputRole, field: TextField, texts: readonly (string | Uint8Array)[]): void {
    this.texts(this.#expect(role, field), texts);
  }

  values(input: TensorMetadata, values: ArrayLike<Numeric>): void {
    this.tensors.push(valuesTensor(input, values, this.#facts.signature.isBatching));
  }

  texts(input: TensorMetadata, texts: readonly (string | Uint8Array)[]): void {
    this.tensors.push(textsTensor(input, texts, this.#facts.signature.isBatching));
  }

  #input(role: InputRole): TensorMetadata | undefined {
    return this.#facts.signature.inputs.get(role);
  }

  #expect(role: InputRole, field: TextField): TensorMetadata {
    const input = this.#input(role);
    if (input !== undefined) return input;
    throw unsupportedField(this.#facts.model, field, "it has no input for this field");
  }
}

/** Inputs that models of both kinds share. */
export function addCommonInputs(list: InputList, request: TextRequest, facts: InputFacts): void {
  if (facts.maxTokens !== undefined) list.offer("maxTokens", facts.maxTokens);
  if (facts.isStreaming) list.offer("stream", true);
  else list.offer("excludesInput", true);
  if (request.cacheSalt !== "" && list.has("cacheSalt"))
    list.requireText("cacheSalt", "cacheSalt", [request.cacheSalt]);
  if (list.has("samplingJson")) {
    list.requireText("samplingJson", "temperature", [JSON.stringify(samplingJson(request, facts))]);
    return;
  }
  if (request.minTokens > 0) list.require("minTokens", "minTokens", [request.minTokens]);
  if (request.ignoresEos) list.require("endId", "ignoresEos", [-1]);
  if (request.guide !== undefined && !takesOwnFormat(list, request, facts)) {
    list.requireText("guideType", "guide", [request.guide.type]);
    if (request.guide.text !== "") list.requireText("guide", "guide", [request.guide.text]);
  }
  if (request.adapter !== undefined) list.requireText("adapter", "adapter", [request.adapter]);
  if (request.adapterPath !== undefined) list.requireText("adapterPath", "adapter", [request.adapterPath]);
  addSampling(list, request, facts);
}

/** The model gets the form of its output as JSON, in an input of its own, and has none for a grammar. */
function takesOwnFormat(list: InputList, { extras }: TextRequest, { signature }: InputFacts): boolean {
  const isGiven = extras.has(FORMAT_INPUT) && signature.jsonInputs.some(({ name }) => name === FORMAT_INPUT);
  return isGiven && !list.has("guideType");
}

/** Values that change nothing: no input is needed for them. */
const NEUTRAL: Readonly<Partial<Record<InputRole, number>>> = {
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
};

type SamplingRole = (typeof SAMPLING_ROLES)[number] & keyof Sampling;

function isSamplingRole(role: InputRole): role is SamplingRole {
  return SAMPLING_ROLES.includes(role);
}

/** Temperature 0 is greedy, which TensorRT-LLM calls a top-k of 1. Without top-k and top-p its default is greedy too. */
function addSampling(list: InputList, request: TextRequest, facts: InputFacts): void {
  if (!facts.signature.samples) return;
  const sampling = effectiveSampling(request.sampling, facts.defaults);
  for (const role of SAMPLING_ROLES) {
    if (!isSamplingRole(role)) continue;
    const value = sampling[role];
    if (value === undefined) continue;
    if (list.has(role)) list.offer(role, value);
    else if (request.sampling[role] !== undefined && value !== NEUTRAL[role]) list.require(role, role, [value]);
  }
}

/** The request's values over the model's over OpenAI's defaults. */
export function effectiveSampling(wanted: Sampling, defaults: Sampling): Sampling {
  const pick = <Key extends keyof Sampling>(key: Key): Sampling[Key] => wanted[key] ?? defaults[key];
  const temperature = pick("temperature") ?? 1;
  const rest = {
    repetitionPenalty: pick("repetitionPenalty"),
    presencePenalty: pick("presencePenalty"),
    frequencyPenalty: pick("frequencyPenalty"),
  };
  if (temperature === 0) return { ...rest, topK: 1 };
  const topK = Math.max(0, pick("topK") ?? 0);
  return { ...rest, temperature, topP: pick("topP") ?? 1, topK, minP: pick("minP"), seed: wanted.seed };
}

function someOf<T>(list: readonly T[]): readonly T[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** Field of vLLM's StructuredOutputsParams by the kind of guide. Its backend for Triton takes JSON in a text. */
function structuredOutputs({ type, text }: NonNullable<TextRequest["guide"]>): string {
  const fields: Readonly<Record<typeof type, string>> = {
    json: "json_object",
    json_schema: "json",
    regex: "regex",
    ebnf_grammar: "grammar",
    choice: "choice",
    structural_tag: "structural_tag",
  };
  const value: unknown = type === "json" ? true : type === "choice" ? JSON.parse(text) : text;
  return JSON.stringify({ [fields[type]]: value });
}

/** Names of vLLM's SamplingParams, which its backend for Triton takes as JSON. */
function samplingJson(request: TextRequest, { maxTokens, defaults }: InputFacts): Readonly<Record<string, unknown>> {
  const { sampling } = request;
  return {
    temperature: sampling.temperature ?? defaults.temperature ?? 1,
    top_p: sampling.topP ?? defaults.topP,
    top_k: sampling.topK ?? defaults.topK,
    min_p: sampling.minP ?? defaults.minP,
    repetition_penalty: sampling.repetitionPenalty ?? defaults.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    seed: sampling.seed === undefined ? undefined : Number(sampling.seed),
    max_tokens: maxTokens,
    min_tokens: request.minTokens === 0 ? undefined : request.minTokens,
    stop: someOf(request.stop),
    stop_token_ids: someOf(request.stopTokenIds),
    bad_words: someOf(request.badWords),
    logit_bias: request.logitBias.size === 0 ? undefined : Object.fromEntries(request.logitBias),
    logprobs: request.logProbs,
    ignore_eos: request.ignoresEos || undefined,
    structured_outputs: request.guide === undefined ? undefined : structuredOutputs(request.guide),
    lora_name: request.adapter,
  };
}
