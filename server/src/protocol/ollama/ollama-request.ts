/** Bodies of Ollama's routes. Source: Ollama's API reference (`docs/api.md`). */
import { MAX_TOKEN_ID } from "../../core/limits.ts";
import { invalidParameter } from "../api/api-error.ts";
import {
  anyObject,
  anything,
  array,
  boolean,
  choice,
  type Field,
  integer,
  isObject,
  type JsonObject,
  mapped,
  object,
  oneOf,
  optional,
  required,
  type Schema,
  string,
} from "../api/schema.ts";
import { type OllamaMessage, readMessage } from "./messages.ts";

export type Think = boolean | "low" | "medium" | "high";

/** Fields that chats and generations share. */
export interface AnswerFields {
  readonly model: string;
  /** Default: streamed. */
  readonly stream?: boolean | undefined;
  readonly format?: string | JsonObject | undefined;
  readonly options?: JsonObject | undefined;
  readonly think?: Think | undefined;
  readonly keep_alive?: unknown;
  readonly logprobs?: boolean | undefined;
  readonly top_logprobs?: number | undefined;
  /** Default: oldest turns are dropped from what the context cannot hold. */
  readonly truncate?: boolean | undefined;
}

export interface OllamaChatRequest extends AnswerFields {
  readonly messages?: readonly OllamaMessage[] | undefined;
  readonly tools?: readonly JsonObject[] | undefined;
}

export interface OllamaGenerateRequest extends AnswerFields {
  readonly prompt?: string | undefined;
  readonly suffix?: string | undefined;
  readonly system?: string | undefined;
  readonly raw?: boolean | undefined;
  readonly images?: readonly string[] | undefined;
  readonly template?: string | undefined;
  /** Token ids of the conversation so far, as an answer gave them. */
  readonly context?: readonly number[] | undefined;
}

export interface OllamaEmbedRequest {
  readonly model: string;
  readonly input?: readonly string[] | undefined;
  readonly dimensions?: number | undefined;
  /** Default: texts are cut to the context. */
  readonly truncate?: boolean | undefined;
  readonly keep_alive?: unknown;
  readonly options?: JsonObject | undefined;
}

export interface OllamaEmbeddingsRequest {
  readonly model: string;
  readonly prompt: string;
}

/** `name` is the older form of `model`. */
export interface OllamaShowRequest {
  readonly model?: string | undefined;
  readonly name?: string | undefined;
}

export type OllamaPullRequest = OllamaShowRequest & { readonly stream?: boolean | undefined };

type FieldsOf<T> = { readonly [Key in keyof Required<T>]: Field<T[Key]> };

const MAX_MESSAGES = 65_536;
const MAX_INPUTS = 2048;
const MAX_TOP_LOG_PROBS = 20;

const isText = (value: unknown): boolean => typeof value === "string";

const FORMAT: Schema<string | JsonObject> = choice<string | JsonObject>(
  "'json' or a JSON schema",
  [isText, oneOf("json", "")],
  [isObject, anyObject()],
);

const THINK: Schema<Think> = choice<Think>(
  "a boolean, or one of 'low', 'medium', and 'high'",
  [(value) => typeof value === "boolean", boolean()],
  [isText, oneOf("low", "medium", "high")],
);

/** Seconds, or a text that Go's `time.ParseDuration` takes. */
const DURATION = /^[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)$/;
const MAX_DURATION_CHARS = 64;
const KEEP_ALIVE: Schema<unknown> = mapped(anything(), (value, path) => {
  const isDuration = typeof value === "string" && value.length <= MAX_DURATION_CHARS && DURATION.test(value);
  if (typeof value === "number" || isDuration) return value;
  const expected = "a number of seconds, or a duration such as '5m'";
  throw invalidParameter(path, "invalid_value", `Invalid value for '${path}': expected ${expected}.`);
});

const ANSWER_FIELDS: FieldsOf<AnswerFields> = {
  model: required(string()),
  stream: optional(boolean()),
  format: optional(FORMAT),
  options: optional(anyObject()),
  think: optional(THINK),
  keep_alive: optional(KEEP_ALIVE),
  logprobs: optional(boolean()),
  top_logprobs: optional(integer(0, MAX_TOP_LOG_PROBS)),
  truncate: optional(boolean()),
};

export const CHAT: Schema<OllamaChatRequest> = object<OllamaChatRequest>({
  ...ANSWER_FIELDS,
  messages: optional(array(mapped(anyObject(), readMessage), 0, MAX_MESSAGES)),
  tools: optional(
    array(
      mapped(anyObject(), (tool) => ({ type: "function", ...tool })),
      0,
      1024,
    ),
  ),
});

export const GENERATE: Schema<OllamaGenerateRequest> = object<OllamaGenerateRequest>({
  ...ANSWER_FIELDS,
  prompt: optional(string()),
  suffix: optional(string()),
  system: optional(string()),
  raw: optional(boolean()),
  images: optional(array(string())),
  template: optional(mapped(string(), noTemplate)),
  context: optional(array(integer(0, MAX_TOKEN_ID))),
});

export const EMBED: Schema<OllamaEmbedRequest> = object<OllamaEmbedRequest>({
  model: required(string()),
  input: optional(
    choice<readonly string[]>(
      "a string or an array of strings",
      [isText, mapped(string(), (text) => [text])],
      [Array.isArray, array(string(), 0, MAX_INPUTS)],
    ),
  ),
  dimensions: optional(integer(1)),
  truncate: optional(boolean()),
  keep_alive: optional(KEEP_ALIVE),
  options: optional(anyObject()),
});

export const EMBEDDINGS: Schema<OllamaEmbeddingsRequest> = object<OllamaEmbeddingsRequest>({
  model: required(string()),
  prompt: required(string()),
});

export const PULL: Schema<OllamaPullRequest> = object<OllamaPullRequest>({
  model: optional(string()),
  name: optional(string()),
  stream: optional(boolean()),
});

export const SHOW: Schema<OllamaShowRequest> = object<OllamaShowRequest>({
  model: optional(string()),
  name: optional(string()),
});

function noTemplate(text: string, path: string): string {
  if (text === "") return text;
  const why = "Templates belong to the model: set 'chat_template' in its config.pbtxt.";
  throw invalidParameter(path, "unsupported_parameter", `Unsupported parameter: '${path}'. ${why}`);
}

/** Clients write a tag behind each name; models here have none. */
export function servedName(name: string): string {
  return name.endsWith(":latest") ? name.slice(0, -":latest".length) : name;
}
