/** A request in the terms of chats, so that both APIs share prompts, tools and sampling. Source: Ollama's API reference. */
import type { ReadMessage } from "../openai/chat/messages.ts";
import type { ChatRequest } from "../openai/chat/request.ts";
import { readImages } from "./messages.ts";
import { type AnswerFields, type OllamaChatRequest, type OllamaGenerateRequest, servedName } from "./ollama-request.ts";
import { optionFields } from "./options.ts";

/** @throws ApiError */
export function asChat(body: OllamaChatRequest, messages: readonly ReadMessage[]): ChatRequest {
  return { ...sharedFields(body), messages, tools: body.tools };
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
  return {
    model: servedName(body.model),
    stream: body.stream ?? true,
    ...optionFields(body.options ?? {}),
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
