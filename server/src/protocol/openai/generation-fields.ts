/**
 * Request fields that chat completions and completions share, OpenAI's and those that vLLM's clients add, and their
 * meaning for a text model. Sources: OpenAI's API reference; vLLM's OpenAI-compatible server, "Extra parameters".
 */
import { MAX_CHOICES, MAX_LLM_SALT_CHARS, MAX_LLM_TOP_LOG_PROBS, MAX_STOPS, MAX_TOKEN_ID } from "../../core/limits.ts";
import type { Sampling, TextRequest } from "../../text-model/text-request.ts";
import { invalidParameter, unsupportedValue } from "../api/api-error.ts";
import {
  anyObject,
  anything,
  array,
  boolean,
  choice,
  type Field,
  integer,
  type JsonObject,
  mapped,
  number,
  oneOf,
  optional,
  record,
  required,
  type Schema,
  string,
} from "../api/schema.ts";
import { guideOf } from "./output-guide.ts";

export type ServiceTier = "auto" | "default" | "flex" | "scale" | "priority" | "fast" | "ultrafast";

export interface StreamOptions {
  readonly include_usage?: boolean | undefined;
  readonly continuous_usage_stats?: boolean | undefined;
}

export interface GenerationFields {
  readonly model: string;
  readonly stream?: boolean | undefined;
  readonly stream_options?: StreamOptions | undefined;
  readonly n?: number | undefined;
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly top_k?: number | undefined;
  readonly min_p?: number | undefined;
  readonly presence_penalty?: number | undefined;
  readonly frequency_penalty?: number | undefined;
  readonly repetition_penalty?: number | undefined;
  readonly seed?: number | undefined;
  readonly stop?: readonly string[] | undefined;
  readonly stop_token_ids?: readonly number[] | undefined;
  readonly include_stop_str_in_output?: boolean | undefined;
  readonly ignore_eos?: boolean | undefined;
  readonly min_tokens?: number | undefined;
  readonly max_tokens?: number | undefined;
  readonly bad_words?: readonly string[] | undefined;
  readonly logit_bias?: ReadonlyMap<string, number> | undefined;
  readonly skip_special_tokens?: boolean | undefined;
  readonly add_special_tokens?: boolean | undefined;
  readonly service_tier?: ServiceTier | undefined;
  readonly priority?: number | undefined;
  readonly prompt_cache_key?: string | undefined;
  readonly cache_salt?: string | undefined;
  readonly user?: string | undefined;
  readonly response_format?: JsonObject | undefined;
  readonly guided_json?: unknown;
  readonly guided_regex?: string | undefined;
  readonly guided_grammar?: string | undefined;
  readonly guided_choice?: readonly string[] | undefined;
  readonly structured_outputs?: JsonObject | undefined;
}

const STOPS: Schema<readonly string[]> = choice<readonly string[]>(
  "a string or an array of strings",
  [(value) => typeof value === "string", mapped(string(), (text) => [text])],
  [Array.isArray, array(string(), 0, MAX_STOPS)],
);

/** `fast` is a newer name of `priority`. */
export const SERVICE_TIER: Schema<ServiceTier> = oneOf(
  "auto",
  "default",
  "flex",
  "scale",
  "priority",
  "fast",
  "ultrafast",
);

export type FieldsOf<T> = { readonly [Key in keyof Required<T>]: Field<T[Key]> };

export const GENERATION_FIELDS: FieldsOf<GenerationFields> = {
  model: required(string()),
  stream: optional(boolean()),
  stream_options: optional(streamOptions()),
  n: optional(integer(1, MAX_CHOICES)),
  temperature: optional(number(0, 2)),
  top_p: optional(number(0, 1)),
  top_k: optional(integer(-1)),
  min_p: optional(number(0, 1)),
  presence_penalty: optional(number(-2, 2)),
  frequency_penalty: optional(number(-2, 2)),
  repetition_penalty: optional(number(0.01, 100)),
  seed: optional(integer(Number.MIN_SAFE_INTEGER)),
  stop: optional(STOPS),
  stop_token_ids: optional(array(integer(0, MAX_TOKEN_ID), 0, MAX_STOPS)),
  include_stop_str_in_output: optional(boolean()),
  ignore_eos: optional(boolean()),
  min_tokens: optional(integer(0)),
  max_tokens: optional(integer(1)),
  bad_words: optional(array(string(), 0, MAX_STOPS)),
  logit_bias: optional(record(number(-100, 100))),
  skip_special_tokens: optional(boolean()),
  add_special_tokens: optional(boolean()),
  service_tier: optional(SERVICE_TIER),
  priority: optional(integer(Number.MIN_SAFE_INTEGER)),
  prompt_cache_key: optional(string(MAX_LLM_SALT_CHARS)),
  cache_salt: optional(string(MAX_LLM_SALT_CHARS)),
  user: optional(string()),
  response_format: optional(anyObject()),
  guided_json: optional(anything()),
  guided_regex: optional(string()),
  guided_grammar: optional(string()),
  guided_choice: optional(array(string(), 1)),
  structured_outputs: optional(anyObject()),
};

function streamOptions(): Schema<StreamOptions> {
  return mapped(anyObject(), (value) => ({
    include_usage: value.include_usage === true,
    continuous_usage_stats: value.continuous_usage_stats === true,
  }));
}

/** @throws ApiError for fields that need another one */
export function expectTogether({ stream, stream_options: options }: GenerationFields): void {
  if (options === undefined || stream === true) return;
  const text = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
  throw invalidParameter("stream_options", "invalid_value", text);
}

/** Levels of the model's queue: 1 comes first, 0 is its default. */
const TIER_LEVELS: Readonly<Record<ServiceTier, number>> = {
  auto: 0,
  default: 0,
  scale: 1,
  priority: 1,
  fast: 1,
  ultrafast: 1,
  flex: 3,
};

/** The tier that answers name: `auto` becomes what it chose. */
export function servedTier(tier: ServiceTier): ServiceTier {
  if (tier === "auto") return "default";
  return tier === "fast" ? "priority" : tier;
}

/** vLLM's `priority`: lower comes first, 0 is the default. */
function priorityOf({ service_tier: tier, priority }: GenerationFields): number {
  if (priority !== undefined && priority !== 0) return priority < 0 ? 1 : 3;
  return tier === undefined ? 0 : TIER_LEVELS[tier];
}

/**
 * The fields that every generation of the request shares. One literal of all fields: a member that replaces one of a spread
 * costs half a microsecond. @throws ApiError
 */
export function textRequestOf(fields: GenerationFields): Omit<TextRequest, "prompt"> {
  return {
    images: [],
    logProbs: undefined,
    promptLogProbs: undefined,
    adapter: undefined,
    adapterPath: undefined,
    keptTokens: [],
    maxTokens: fields.max_tokens,
    minTokens: fields.min_tokens ?? 0,
    sampling: samplingOf(fields),
    stop: fields.stop ?? [],
    stopTokenIds: fields.stop_token_ids ?? [],
    includesStop: fields.include_stop_str_in_output ?? false,
    ignoresEos: fields.ignore_eos ?? false,
    badWords: fields.bad_words ?? [],
    logitBias: biasOf(fields.logit_bias),
    guide: guideOf(fields),
    cacheSalt: fields.cache_salt ?? fields.prompt_cache_key ?? "",
    priority: priorityOf(fields),
    isStreaming: fields.stream ?? false,
    skipsSpecialTokens: fields.skip_special_tokens ?? true,
    addSpecialTokens: fields.add_special_tokens ?? true,
    extras: extrasOf(fields),
  };
}

function samplingOf(fields: GenerationFields): Sampling {
  return {
    temperature: fields.temperature,
    topP: fields.top_p,
    topK: fields.top_k,
    minP: fields.min_p,
    repetitionPenalty: fields.repetition_penalty,
    presencePenalty: fields.presence_penalty,
    frequencyPenalty: fields.frequency_penalty,
    seed: fields.seed === undefined ? undefined : BigInt.asUintN(64, BigInt(fields.seed)),
  };
}

function biasOf(bias: ReadonlyMap<string, number> | undefined): ReadonlyMap<number, number> {
  const values = new Map<number, number>();
  for (const [key, value] of bias ?? []) {
    const id = Number(key);
    if (!/^\d+$/.test(key) || id > MAX_TOKEN_ID) {
      throw unsupportedValue("logit_bias", `'${key.slice(0, 100)}' is no token id.`);
    }
    values.set(id, value);
  }
  return values;
}

function extrasOf({ user, response_format: format }: GenerationFields): ReadonlyMap<string, string> {
  const extras = new Map<string, string>();
  if (user !== undefined) extras.set("user", user);
  if (format !== undefined) extras.set("response_format", JSON.stringify(format));
  return extras;
}

/** Alternatives for each token. */
export const TOP_LOG_PROBS: Schema<number> = integer(0, Math.min(20, MAX_LLM_TOP_LOG_PROBS));

/** Seeds of the generations of one request differ, and the first has the client's. */
export function withChoiceSeed(request: TextRequest, index: number): TextRequest {
  const { seed } = request.sampling;
  if (index === 0 || seed === undefined) return request;
  const own = BigInt.asUintN(64, seed ^ (BigInt(index) * 0x9e3779b97f4a7c15n));
  return { ...request, sampling: { ...request.sampling, seed: own } };
}
