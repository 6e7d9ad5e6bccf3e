/** Messages of a chat, in the form that templates take. Source: Ollama's API reference, "Generate a chat completion". */
import type { ChatMessage, ChatToolCall, ContentPart } from "../../chat/chat-contract.ts";
import { MAX_IMAGES } from "../../core/limits.ts";
import { invalidParameter, missingParameter, unsupportedValue } from "../api/api-error.ts";
import { isObject, type JsonObject, oneOf } from "../api/schema.ts";
import { readImage } from "../openai/chat/image-source.ts";
import type { ReadMessage } from "../openai/chat/messages.ts";

export interface OllamaMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string;
  readonly thinking: string;
  readonly images: readonly (Uint8Array | string)[];
  readonly calls: readonly OllamaCall[];
  readonly toolName: string | undefined;
  readonly toolCallId: string | undefined;
}

interface OllamaCall {
  readonly id: string | undefined;
  readonly name: string;
  readonly arguments: unknown;
}

const ROLE = oneOf("system", "user", "assistant", "tool");

/** @throws ApiError */
export function readMessage(value: JsonObject, path: string): OllamaMessage {
  if (value.role === undefined) throw missingParameter(`${path}.role`);
  const calls = Array.isArray(value.tool_calls) ? value.tool_calls : [];
  return {
    role: ROLE.read(value.role, `${path}.role`),
    content: textMember(value, "content", path) ?? "",
    thinking: textMember(value, "thinking", path) ?? "",
    images: readImages(value.images, `${path}.images`),
    calls: calls.map((call: unknown, i) => readCall(call, `${path}.tool_calls[${i}]`)),
    toolName: textMember(value, "tool_name", path) ?? textMember(value, "name", path),
    toolCallId: textMember(value, "tool_call_id", path),
  };
}

/** Files in base64, with or without the head of a data URL. @throws ApiError */
export function readImages(value: unknown, path: string): readonly (Uint8Array | string)[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value) || !value.every((each) => typeof each === "string")) {
    throw invalidParameter(path, "invalid_type", `Invalid type for '${path}': expected an array of strings.`);
  }
  if (value.length > MAX_IMAGES) throw unsupportedValue(path, `A message holds at most ${MAX_IMAGES} images.`);
  return value.map((text: string, i) =>
    readImage(/^(data|https?):/.test(text) ? text : `data:;base64,${text}`, `${path}[${i}]`),
  );
}

function readCall(call: unknown, path: string): OllamaCall {
  const called = isObject(call) ? call.function : undefined;
  if (!isObject(call) || !isObject(called) || typeof called.name !== "string") {
    throw missingParameter(`${path}.function.name`);
  }
  return {
    id: typeof call.id === "string" ? call.id : undefined,
    name: called.name,
    arguments: called.arguments ?? {},
  };
}

function textMember(value: JsonObject, key: string, path: string): string | undefined {
  const text = value[key];
  if (text === undefined || text === null) return undefined;
  if (typeof text === "string") return text;
  throw invalidParameter(`${path}.${key}`, "invalid_type", `Invalid type for '${path}.${key}': expected a string.`);
}

/** Calls without an id get one, and each result that of the first call without a result. */
export function templateMessages(messages: readonly OllamaMessage[]): readonly ReadMessage[] {
  const open: ChatToolCall[] = [];
  let numCalls = 0;
  return messages.map((message) => {
    if (message.role === "tool") return resultMessage(message, open);
    const calls = message.calls.map(({ id, name, arguments: given }): ChatToolCall => {
      numCalls += 1;
      return { id: id ?? `call_${numCalls}`, type: "function", function: { name, arguments: given } };
    });
    open.push(...calls);
    return { message: chatMessage(message, calls), images: message.images };
  });
}

function chatMessage(message: OllamaMessage, calls: readonly ChatToolCall[]): ChatMessage {
  const { role, content, thinking, images } = message;
  const parts: ContentPart[] = images.map(() => ({ type: "image" }));
  return {
    role,
    content: parts.length === 0 ? content : [...parts, { type: "text", text: content }],
    ...(thinking === "" ? {} : { reasoning_content: thinking }),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

function resultMessage({ content, toolName, toolCallId }: OllamaMessage, open: ChatToolCall[]): ReadMessage {
  const isAnswered = (call: ChatToolCall): boolean =>
    toolCallId === undefined ? toolName === undefined || call.function.name === toolName : call.id === toolCallId;
  const at = open.findIndex(isAnswered);
  const [call] = at < 0 ? [] : open.splice(at, 1);
  const name = toolName ?? call?.function.name;
  return {
    message: {
      role: "tool",
      content,
      tool_call_id: toolCallId ?? call?.id ?? "",
      ...(name === undefined ? {} : { name }),
    },
    images: [],
  };
}
