/**
 * Which of the tools may be called, and which must be. Chats and responses write it alike but for where the name stands.
 * Source: OpenAI's API reference, `tool_choice`.
 */
import type { ChatTool, ToolChoice } from "../../chat/chat-contract.ts";
import { invalidParameter } from "../api/api-error.ts";
import { isObject, type JsonObject } from "../api/schema.ts";

export interface ToolChoiceParts {
  readonly value: unknown;
  readonly param: string;
  readonly tools: readonly ChatTool[];
  /** Tools of the request, those that were left out included. */
  readonly numGiven: number;
  /** Types of choices that name a tool; others choose one of OpenAI's own tools, which cannot be chosen here. */
  readonly namedTypes: readonly string[];
  readonly nameOf: (value: JsonObject) => string | undefined;
}

export interface AllowedTools {
  readonly list: readonly ChatTool[];
  readonly choice: ToolChoice;
}

/** @throws ApiError */
export function readToolChoice(parts: ToolChoiceParts): AllowedTools {
  const { value, nameOf } = parts;
  const allowed = allowedOf(value);
  if (allowed === undefined) return { list: parts.tools, choice: readChoice(parts) };
  const named: readonly unknown[] = Array.isArray(allowed.tools) ? allowed.tools : [];
  const names = new Set(named.map((tool) => (isObject(tool) ? nameOf(tool) : undefined)));
  const list = parts.tools.filter((tool) => names.has(tool.function.name));
  return { list, choice: readChoice({ ...parts, value: allowed.mode, tools: list }) };
}

/** Chats nest it one level deeper. */
function allowedOf(value: unknown): JsonObject | undefined {
  if (!isObject(value) || value.type !== "allowed_tools") return undefined;
  return isObject(value.allowed_tools) ? value.allowed_tools : value;
}

function readChoice(parts: ToolChoiceParts): ToolChoice {
  const { value, param, tools, numGiven } = parts;
  const auto = tools.length === 0 ? "none" : "auto";
  if (value === undefined || value === null) return auto;
  if (value === "none") return "none";
  if (numGiven === 0) {
    const text = `Invalid value for '${param}': '${param}' is only allowed when 'tools' are specified.`;
    throw invalidParameter(param, "invalid_value", text);
  }
  if (value === "auto") return auto;
  if (value === "required" || value === "any") return tools.length === 0 ? "none" : "required";
  if (!isObject(value)) throw wrongChoice(param);
  const type: unknown = value.type ?? "function"; // of any kind: {"toString": 1} does not convert to a text
  return parts.namedTypes.some((name) => name === type) ? namedChoice(parts, value) : auto;
}

function namedChoice({ param, tools, nameOf }: ToolChoiceParts, value: JsonObject): ToolChoice {
  const name = nameOf(value);
  if (name === undefined) throw wrongChoice(param);
  if (tools.some((tool) => tool.function.name === name)) return { name };
  throw invalidParameter(param, "invalid_value", `Tool choice '${name}' not found in 'tools' parameter.`);
}

function wrongChoice(param: string): Error {
  const text = `Invalid value for '${param}': expected 'none', 'auto', 'required', or an object that names a function.`;
  return invalidParameter(param, "invalid_value", text);
}
