/** Why a message ended, and its token counts. Source: Anthropic's API reference, "Messages", `stop_reason`, `usage`. */
import type { TextChunk, TextUsage } from "../../text-model/text-request.ts";
import type { ChatFinish } from "../openai/chat/chat-choice.ts";

export type StopReason = "end_turn" | "max_tokens" | "stop_sequence" | "tool_use" | "model_context_window_exceeded";

export interface MessageEnd {
  readonly stop_reason: StopReason;
  readonly stop_sequence: string | null;
}

export function endOf(finish: ChatFinish, { stopText, usage }: TextChunk, maxTokens: number): MessageEnd {
  if (finish === "tool_calls") return { stop_reason: "tool_use", stop_sequence: null };
  if (finish === "length") {
    const isFull = usage.outputTokens !== undefined && usage.outputTokens < maxTokens;
    return { stop_reason: isFull ? "model_context_window_exceeded" : "max_tokens", stop_sequence: null };
  }
  if (stopText !== undefined) return { stop_reason: "stop_sequence", stop_sequence: stopText };
  return { stop_reason: "end_turn", stop_sequence: null };
}

/** Cached tokens are counted apart from the others; a model that cannot count has 0. */
export function usageOf({ promptTokens, outputTokens, cachedTokens }: TextUsage, thinkingTokens: number): unknown {
  return {
    input_tokens: Math.max(0, (promptTokens ?? 0) - cachedTokens),
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cachedTokens,
    output_tokens: outputTokens ?? 0,
    output_tokens_details: { thinking_tokens: thinkingTokens },
    server_tool_use: null,
  };
}
