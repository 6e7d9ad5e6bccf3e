/** From the settings and messages of a chat to a request, and from the parts of a stream to its answer. Pure. Source: OpenAI's API reference. */
import type { ChatBody } from "./snippets.ts";

export interface ChatMessage {
  readonly role: "user" | "assistant";
  readonly text: string;
  /** Data URLs. */
  readonly images: readonly string[];
  /** Calls of tools, as text. */
  readonly calls?: string;
}

export interface ChatSettings {
  readonly system: string;
  /** "" = the model's own. */
  readonly temperature: string;
  readonly maxTokens: string;
  /** JSON array; "" = none. */
  readonly tools: string;
  readonly isStream: boolean;
}

export const FIRST_SETTINGS: ChatSettings = {
  system: "",
  temperature: "",
  maxTokens: "256",
  tools: "",
  isStream: true,
};

/** @throws Error that says what to change */
export function chatBody(model: string, settings: ChatSettings, messages: readonly ChatMessage[]): ChatBody {
  const { system, temperature, maxTokens, tools, isStream } = settings;
  return {
    model,
    messages: [...(system.trim() === "" ? [] : [{ role: "system", content: system }]), ...messages.map(messageOf)],
    ...(temperature.trim() === "" ? {} : { temperature: numberOf("Temperature", temperature) }),
    ...(maxTokens.trim() === "" ? {} : { max_tokens: numberOf("Most tokens", maxTokens) }),
    ...(tools.trim() === "" ? {} : { tools: toolsOf(tools) }),
    stream: isStream,
    ...(isStream ? { stream_options: { include_usage: true } } : {}),
  };
}

function messageOf({ role, text, images }: ChatMessage): unknown {
  if (images.length === 0) return { role, content: text };
  const parts = images.map((url) => ({ type: "image_url", image_url: { url } }));
  return { role, content: [...parts, { type: "text", text }] };
}

function numberOf(name: string, text: string): number {
  const value = Number(text);
  if (Number.isNaN(value)) throw new Error(`${name}: expected a number, got '${text}'`);
  return value;
}

function toolsOf(text: string): readonly unknown[] {
  try {
    const tools: unknown = JSON.parse(text);
    if (Array.isArray(tools)) return tools;
  } catch {
    // the error below says it
  }
  throw new Error('Tools: expected a JSON array, as [{"type": "function", "function": {"name": "…"}}]');
}

export interface ChatAnswer {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: string;
  /** Absent until the server told it. */
  readonly tokens?: number;
}

export const NO_ANSWER: ChatAnswer = { text: "", reasoning: "", calls: "" };

interface Delta {
  readonly content?: string | null;
  readonly reasoning_content?: string | null;
  readonly tool_calls?: readonly { readonly function?: { readonly name?: string; readonly arguments?: string } }[];
}

interface Part {
  readonly choices?: readonly { readonly delta?: Delta; readonly message?: Delta }[];
  readonly usage?: { readonly completion_tokens?: number } | null;
  readonly error?: { readonly message?: string };
}

/** Adds a part of a stream, or a whole response. @throws Error that the server sent */
export function withPart(answer: ChatAnswer, json: string): ChatAnswer {
  const { choices, usage, error }: Part = JSON.parse(json);
  if (error !== undefined) throw new Error(error.message ?? json);
  const [choice] = choices ?? [];
  const { content, reasoning_content, tool_calls = [] } = choice?.delta ?? choice?.message ?? {};
  const calls = tool_calls.map((call) => `${call.function?.name ?? ""}${call.function?.arguments ?? ""}`).join("");
  return {
    text: answer.text + (content ?? ""),
    reasoning: answer.reasoning + (reasoning_content ?? ""),
    calls: answer.calls + calls,
    ...(usage?.completion_tokens === undefined ? {} : { tokens: usage.completion_tokens }),
  };
}
