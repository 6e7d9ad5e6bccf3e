/**
 * Messages of a chat request: their schema, and their form for templates. Source: OpenAI's API reference, "Create chat
 * completion", messages.
 */
import type { ChatMessage, ChatToolCall, ContentPart } from "../../../chat/chat-contract.ts";
import { MAX_IMAGES, MAX_MESSAGES } from "../../../core/limits.ts";
import { invalidParameter, missingParameter, unsupportedValue } from "../../api/api-error.ts";
import { anyObject, array, describe, isObject, type JsonObject, mapped, oneOf, type Schema } from "../../api/schema.ts";
import { readImage } from "./image-source.ts";

/** One message and the images in it. */
export interface ReadMessage {
  readonly message: ChatMessage;
  readonly images: readonly (Uint8Array | string)[];
}

const ROLE = oneOf("system", "assistant", "user", "function", "tool", "developer");

export const MESSAGES: Schema<readonly ReadMessage[]> = array(mapped(anyObject(), readMessage), 1, MAX_MESSAGES);

/** @throws ApiError */
export function readMessage(value: JsonObject, path: string): ReadMessage {
  if (value.role === undefined) throw missingParameter(`${path}.role`);
  const role = ROLE.read(value.role, `${path}.role`);
  const images: (Uint8Array | string)[] = [];
  const content = readContent(value.content, `${path}.content`, images);
  const calls = readCalls(value, path);
  if (content === null && calls === undefined && role !== "assistant") throw missingParameter(`${path}.content`);
  if (role === "tool" && typeof value.tool_call_id !== "string") throw missingParameter(`${path}.tool_call_id`);
  if (images.length > MAX_IMAGES) {
    throw unsupportedValue(`${path}.content`, `It holds ${images.length} images, expected at most ${MAX_IMAGES}.`);
  }
  const message: ChatMessage = {
    role: role === "function" ? "tool" : role,
    content,
    ...stringMember(value, "name"),
    ...stringMember(value, "tool_call_id"),
    ...reasoningOf(value),
    ...(calls === undefined ? {} : { tool_calls: calls }),
  };
  return { message, images };
}

/** Text parts become one text; beside images they stay apart. */
function readContent(value: unknown, path: string, images: (Uint8Array | string)[]): ChatMessage["content"] {
  if (value === undefined || value === null) return null;
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) {
    const text = `Invalid type for '${path}': expected one of a string or array of objects, but got ${describe(value)} instead.`;
    throw invalidParameter(path, "invalid_type", text);
  }
  const parts = value.map((part, i) => readPart(part, `${path}[${i}]`, images));
  if (parts.some(({ type }) => type === "image")) return parts;
  return parts.map((part) => (part.type === "text" ? part.text : "")).join("\n");
}

function readPart(part: unknown, path: string, images: (Uint8Array | string)[]): ContentPart {
  if (typeof part === "string") return { type: "text", text: part };
  if (!isObject(part)) throw invalidParameter(path, "invalid_type", `Invalid type for '${path}': expected an object.`);
  switch (part.type) {
    case "text":
    case "input_text":
    case "output_text":
      return { type: "text", text: expectText(part.text, `${path}.text`) };
    case "refusal":
      return { type: "text", text: expectText(part.refusal, `${path}.refusal`) };
    case "image_url":
    case "input_image": {
      const source = isObject(part.image_url) ? part.image_url.url : part.image_url;
      images.push(readImage(expectText(source, `${path}.image_url.url`), `${path}.image_url.url`));
      return { type: "image" };
    }
    case undefined:
      throw missingParameter(`${path}.type`);
    default:
      throw unsupportedValue(`${path}.type`, "Supported values are: 'text', 'image_url', and 'refusal'.");
  }
}

function expectText(value: unknown, path: string): string {
  if (typeof value === "string") return value;
  if (value === undefined || value === null) throw missingParameter(path);
  throw invalidParameter(path, "invalid_type", `Invalid type for '${path}': expected a string.`);
}

function stringMember<Key extends "name" | "tool_call_id">(
  value: JsonObject,
  key: Key,
): Readonly<Partial<Record<Key, string>>> {
  const text = value[key];
  const member: Partial<Record<Key, string>> = {};
  if (typeof text === "string") member[key] = text;
  return member;
}

/** By the names of DeepSeek's and of vLLM's API. */
function reasoningOf(value: JsonObject): Pick<ChatMessage, "reasoning_content"> {
  const text = value.reasoning_content ?? value.reasoning;
  return typeof text === "string" ? { reasoning_content: text } : {};
}

/** `function_call` is the older form of a single call. */
function readCalls(value: JsonObject, path: string): readonly ChatToolCall[] | undefined {
  if (isObject(value.function_call)) return [readCall({ function: value.function_call }, `${path}.function_call`, 0)];
  if (!Array.isArray(value.tool_calls) || value.tool_calls.length === 0) return undefined;
  return value.tool_calls.map((call: unknown, i) => readCall(call, `${path}.tool_calls[${i}]`, i));
}

function readCall(call: unknown, path: string, index: number): ChatToolCall {
  const called = isObject(call) ? (call.function ?? call.custom) : undefined;
  if (!isObject(call) || !isObject(called)) throw missingParameter(`${path}.function`);
  const isCustom = call.function === undefined;
  const name = expectText(called.name, `${path}.${isCustom ? "custom" : "function"}.name`);
  const id = typeof call.id === "string" ? call.id : `call_${index}`;
  const given = isCustom ? { input: called.input ?? "" } : parseArguments(called.arguments);
  return { id, type: "function", function: { name, arguments: given } };
}

/** Templates write arguments in their own form; a text that is no JSON stays as it is. */
export function parseArguments(value: unknown): unknown {
  if (typeof value !== "string") return value ?? {};
  if (value === "") return {};
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
