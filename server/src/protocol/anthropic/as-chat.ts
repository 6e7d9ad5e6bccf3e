/** A request in the terms of chats, so that both APIs share prompts, tools and sampling. Source: Anthropic's API reference. */

import type { JsonObject } from "../api/schema.ts";
import type { ChatRequest } from "../openai/chat/request.ts";
import { continuesLast, messagesOf } from "./conversation.ts";
import { formatOf, type MessagesRequest, type PromptFields } from "./messages-request.ts";

/** @throws ApiError */
export function asChat(body: MessagesRequest): ChatRequest {
  const schema = formatOf(body);
  const user = body.metadata?.user_id;
  return {
    ...asChatPrompt(body),
    max_tokens: body.max_tokens,
    stop: body.stop_sequences,
    stream: body.stream,
    temperature: body.temperature,
    top_p: body.top_p,
    top_k: body.top_k,
    ...(typeof user === "string" ? { user } : {}),
    ...(schema === undefined ? {} : { response_format: { type: "json_schema", json_schema: { schema } } }),
  };
}

/** The part of the request that the prompt comes from. @throws ApiError */
export function asChatPrompt(body: PromptFields): ChatRequest {
  return {
    model: body.model,
    messages: messagesOf(body.system, body.messages),
    continue_final_message: continuesLast(body.messages),
    chat_template_kwargs: thinkingVariables(body),
    thinking_token_budget: body.thinking?.budgetTokens,
    ...effortOf(body),
  };
}

/** Names by which templates switch reasoning: `enable_thinking` (Qwen, GLM), `thinking` (DeepSeek, Granite), Seed's budget. */
function thinkingVariables({ thinking }: PromptFields): JsonObject {
  const isOn = thinking?.isOn ?? false;
  const budget = thinking?.budgetTokens;
  return { enable_thinking: isOn, thinking: isOn, ...(budget === undefined ? {} : { thinking_budget: budget }) };
}

/** Templates know three levels. */
const EFFORTS: ReadonlyMap<unknown, string> = new Map([
  ["low", "low"],
  ["medium", "medium"],
  ["high", "high"],
  ["xhigh", "high"],
  ["max", "high"],
]);

function effortOf({ output_config: config }: PromptFields): Pick<ChatRequest, "reasoning_effort"> {
  return { reasoning_effort: EFFORTS.get(config?.effort) };
}
