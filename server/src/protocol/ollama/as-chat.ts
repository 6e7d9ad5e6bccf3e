/** A request in the terms of chats, so that both APIs share prompts, tools and sampling. Source: Ollama's API reference. */
import { invalidParameter } from "../api/api-error.ts";
import type { JsonObject } from "../api/schema.ts";
import type { ReadMessage } from "../openai/chat/messages.ts";
import type { ChatRequest } from "../openai/chat/request.ts";
import { readImages, templateMessages } from "./messages.ts";
import { type AnswerFields, type OllamaChatRequest, type OllamaGenerateRequest, servedName } from "./ollama-request.ts";

/** @throws ApiError */
export function asChat(body: OllamaChatRequest): ChatRequest {
  return { ...sharedFields(body), messages: templateMessages(body.messages ?? []), tools: body.tools };
}

/** A prompt is one message of the user. @throws ApiError */
export function promptAsChat(body: OllamaGenerateRequest): ChatRequest {
  const images = readImages(body.images, "images");
  const text = body.prompt ?? "";
  const parts = images.map(() => ({ type: "image" as const }));
  const content = images.length === 0 ? text : [...parts, { type: "text" as const, text }];
  const system: readonly ReadMessage[] =
    body.system === undefined || body.system === ""
      ? []
      : [{ message: { role: "system", content: body.system }, images: [] }];
  return { ...sharedFields(body), messages: [...system, { message: { role: "user", content }, images }] };
}

function sharedFields(body: AnswerFields): Omit<ChatRequest, "messages"> {
  const options = new Options(body.options ?? {});
  const limit = options.number("num_predict");
  return {
    model: servedName(body.model),
    stream: body.stream ?? true,
    // 0 and below stand for no limit.
    max_tokens: limit === undefined || limit <= 0 ? undefined : Math.floor(limit),
    temperature: options.number("temperature"),
    top_p: options.number("top_p"),
    top_k: options.number("top_k"),
    min_p: options.number("min_p"),
    repetition_penalty: options.number("repeat_penalty"),
    presence_penalty: options.number("presence_penalty"),
    frequency_penalty: options.number("frequency_penalty"),
    seed: options.seed(),
    stop: options.stop(),
    logprobs: body.logprobs,
    top_logprobs: body.top_logprobs,
    ...formatFields(body.format),
    ...thinkFields(body.think),
  };
}

function formatFields(format: AnswerFields["format"]): Pick<ChatRequest, "response_format"> {
  if (format === undefined || format === "") return {};
  if (typeof format === "string") return { response_format: { type: "json_object" } };
  return { response_format: { type: "json_schema", json_schema: { schema: format } } };
}

/** Names by which templates switch reasoning: `enable_thinking` (Qwen, GLM), `thinking` (DeepSeek, Granite). */
function thinkFields(think: AnswerFields["think"]): Pick<ChatRequest, "chat_template_kwargs" | "reasoning_effort"> {
  if (think === undefined) return {};
  const isOn = think !== false;
  const variables = { chat_template_kwargs: { enable_thinking: isOn, thinking: isOn } };
  return typeof think === "string" ? { ...variables, reasoning_effort: think } : variables;
}

/** Options of sampling; others (num_ctx, num_gpu, mirostat, ...) change nothing here. */
class Options {
  readonly #values: JsonObject;

  constructor(values: JsonObject) {
    this.#values = values;
  }

  /** @throws ApiError */
  number(key: string): number | undefined {
    const value = this.#values[key];
    if (value === undefined || value === null) return undefined;
    if (typeof value === "number" && Number.isFinite(value)) return value;
    throw wrongType(key, "a number");
  }

  /** Negative seeds stand for none. @throws ApiError */
  seed(): number | undefined {
    const seed = this.number("seed");
    if (seed === undefined || seed < 0) return undefined;
    if (Number.isSafeInteger(seed)) return seed;
    throw wrongType("seed", "an integer");
  }

  /** @throws ApiError */
  stop(): readonly string[] | undefined {
    const { stop } = this.#values;
    if (stop === undefined || stop === null) return undefined;
    if (typeof stop === "string") return [stop];
    if (Array.isArray(stop) && stop.every((each) => typeof each === "string")) return stop;
    throw wrongType("stop", "an array of strings");
  }
}

function wrongType(key: string, expected: string): Error {
  return invalidParameter(`options.${key}`, "invalid_type", `Invalid type for 'options.${key}': expected ${expected}.`);
}
