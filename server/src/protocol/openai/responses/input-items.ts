/**
 * Items of `input`: which there are, and those that carry something for the model.
 * Source: OpenAI's API reference, "Create a model response", `input`.
 */
import { randomUUID } from "node:crypto";
import { MAX_MESSAGES } from "../../../core/limits.ts";
import { invalidParameter, missingParameter } from "../../api/api-error.ts";
import { anyObject, array, choice, type JsonObject, mapped, type Schema, shown, string } from "../../api/schema.ts";

/** Calls of tools that clients run and their results have `call_id`; their types end so. */
const CALL = /_call$/;
const CALL_OUTPUT = /_call_output$/;

/** Items that say nothing to a model of this server: work of OpenAI's own tools, and their settings. */
const SILENT: ReadonlySet<string> = new Set([
  "additional_tools",
  "compaction_trigger",
  "configuration_update",
  "mcp_approval_request",
  "mcp_approval_response",
  "mcp_list_tools",
  "program",
  "program_output",
  "tool_search_output",
]);

export type ItemKind = "message" | "reasoning" | "reference" | "call" | "output" | "compaction" | "silent";

const KINDS: Readonly<Record<string, ItemKind>> = {
  message: "message",
  agent_message: "message",
  reasoning: "reasoning",
  item_reference: "reference",
  function_call_output: "output",
  compaction: "compaction",
  // By Codex's names.
  compaction_summary: "compaction",
  context_compaction: "compaction",
};

/** Undefined: OpenAI has no such type. */
export function kindOf(type: string): ItemKind | undefined {
  if (Object.hasOwn(KINDS, type)) return KINDS[type];
  if (CALL_OUTPUT.test(type)) return "output";
  if (CALL.test(type)) return "call";
  return SILENT.has(type) ? "silent" : undefined;
}

export const INPUT: Schema<readonly JsonObject[]> = choice<readonly JsonObject[]>(
  "a string or an array of input items",
  [(value) => typeof value === "string", mapped(string(), (text) => [userMessage(text)])],
  [Array.isArray, array(mapped(anyObject(), readItem), 0, MAX_MESSAGES)],
);

function userMessage(text: string): JsonObject {
  return { type: "message", role: "user", content: [{ type: "input_text", text }] };
}

/** The item with its type, which messages and references may leave out. @throws ApiError */
function readItem(item: JsonObject, path: string): JsonObject {
  const type = item.type ?? typeWithout(item);
  if (type === undefined) throw missingParameter(`${path}.type`);
  if (typeof type === "string" && kindOf(type) !== undefined) return { ...item, type };
  const text = `Invalid value: '${shown(type)}'. Supported values are: 'message', 'reasoning', 'function_call', 'function_call_output', 'custom_tool_call', 'custom_tool_call_output', 'item_reference', and calls of built-in tools.`;
  throw invalidParameter(`${path}.type`, "invalid_value", text);
}

function typeWithout(item: JsonObject): string | undefined {
  if (item.role !== undefined) return "message";
  return typeof item.id === "string" ? "item_reference" : undefined;
}

const PREFIXES: Readonly<Record<ItemKind, string>> = {
  message: "msg",
  reasoning: "rs",
  reference: "ref",
  call: "fc",
  output: "fco",
  compaction: "cmp",
  silent: "item",
};

/** Items as they are kept: each with an id. */
export function withIds(items: readonly JsonObject[]): readonly JsonObject[] {
  return items.map((item) => {
    const id = typeof item.id === "string" ? item.id : newItemId(PREFIXES[kindOf(String(item.type)) ?? "silent"]);
    return { ...item, ...partsOf(item), id };
  });
}

/** Lists show the text of a message as a part. */
function partsOf({ content, role }: JsonObject): JsonObject {
  if (typeof content !== "string") return {};
  return { content: [{ type: role === "assistant" ? "output_text" : "input_text", text: content }] };
}

export function newItemId(prefix: string): string {
  return `${prefix}_${randomUUID().replaceAll("-", "")}`;
}
