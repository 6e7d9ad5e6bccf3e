/** A request in the terms of chats, so that both APIs share prompts, tools, guides and sampling. Source: OpenAI's API reference. */
import type { ReadMessage } from "../chat/messages.ts";
import type { ChatRequest } from "../chat/request.ts";
import { reasoningFields } from "./reasoning-options.ts";
import type { PromptFields, ResponseRequest } from "./request.ts";
import { responseFormat } from "./text-options.ts";

/** The part of the request that the prompt comes from. */
export function asChatPrompt(body: PromptFields, messages: readonly ReadMessage[]): ChatRequest {
  return {
    model: body.model,
    messages,
    response_format: responseFormat(body.text),
    verbosity: body.text?.verbosity,
    ...reasoningFields(body.reasoning, body.chat_template_kwargs),
  };
}

export function asChat(body: ResponseRequest, messages: readonly ReadMessage[]): ChatRequest {
  const hasLogProbs = wantsLogProbs(body);
  return {
    ...asChatPrompt(body, messages),
    stream: body.stream,
    max_completion_tokens: body.max_output_tokens,
    temperature: body.temperature,
    top_p: body.top_p,
    top_k: body.top_k,
    seed: body.seed,
    logprobs: hasLogProbs,
    top_logprobs: hasLogProbs ? body.top_logprobs : undefined,
    user: body.user,
    prompt_cache_key: body.prompt_cache_key,
    service_tier: body.service_tier,
  };
}

export function wantsLogProbs({ include }: Pick<ResponseRequest, "include">): boolean {
  return include?.includes("message.output_text.logprobs") ?? false;
}

export function wantsEncodedReasoning({ include }: Pick<ResponseRequest, "include">): boolean {
  return include?.includes("reasoning.encrypted_content") ?? false;
}
