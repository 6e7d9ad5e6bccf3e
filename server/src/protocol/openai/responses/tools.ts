/**
 * Tools of a request as tools of a chat, and the way back from a call to its tool. A custom tool becomes a function with
 * one text; tools of a namespace get its name in front. Tools that OpenAI's own service would run are left out: clients
 * that offer them still work. Sources: OpenAI's API reference, `tools`, `tool_choice`; guide "Function calling".
 */
import type { ChatTool } from "../../../chat/chat-contract.ts";
import { missingParameter } from "../../api/api-error.ts";
import { isObject, type JsonObject } from "../../api/schema.ts";
import { expectStrictTool, expectToolName, inputGrammars, type Tools } from "../chat/tools.ts";
import { type CustomTool, readCustomTool } from "../custom-tool.ts";
import { readToolChoice } from "../tool-choice.ts";

/** The tool as the request has it. */
export interface ToolOrigin {
  readonly isCustom: boolean;
  readonly name: string;
  readonly namespace: string | undefined;
}

export interface ResponseTools extends Tools {
  /** By the name that the model sees. */
  readonly origins: ReadonlyMap<string, ToolOrigin>;
}

export interface ResponseToolFields {
  readonly tools?: readonly JsonObject[] | undefined;
  readonly tool_choice?: unknown;
  readonly parallel_tool_calls?: boolean | undefined;
}

const SEPARATOR = "__";

/** The name that the model sees. */
export function chatToolName(name: string, namespace: string | undefined): string {
  if (namespace === undefined || namespace === "") return name;
  return namespace.endsWith(SEPARATOR) ? namespace + name : namespace + SEPARATOR + name;
}

/** @param added tools of items, which hold from there on. @throws ApiError */
export function readResponseTools(fields: ResponseToolFields, added: readonly JsonObject[]): ResponseTools {
  const given = fields.tools ?? [];
  const read = [...given, ...added].flatMap((tool, i) => readTool(tool, `tools[${i}]`, undefined));
  const origins = new Map(read.map(({ tool, origin }) => [tool.function.name, origin]));
  const inputs = inputGrammars(read);
  const byName = new Map(read.map(({ tool }) => [tool.function.name, tool]));
  const allowed = readToolChoice({
    value: fields.tool_choice === "auto" ? undefined : fields.tool_choice, // the default may be written out
    param: "tool_choice",
    tools: [...byName.values()],
    numGiven: given.length + added.length,
    namedTypes: ["function", "custom"],
    nameOf,
  });
  return { ...allowed, isParallel: fields.parallel_tool_calls ?? true, inputs, origins };
}

interface ReadTool extends CustomTool {
  readonly origin: ToolOrigin;
}

function readTool(tool: JsonObject, path: string, namespace: string | undefined): readonly ReadTool[] {
  const { type } = tool;
  if (type === undefined) throw missingParameter(`${path}.type`);
  if (type === "namespace" && namespace === undefined) return readNamespace(tool, path);
  if (type !== "function" && type !== "custom") return [];
  const own = expectToolName(tool.name, `${path}.name`);
  const name = chatToolName(own, namespace);
  const origin = { isCustom: type === "custom", name: own, namespace };
  if (origin.isCustom) return [{ ...readCustomTool(tool, name, path), origin }];
  if (tool.strict === true) expectStrictTool(tool.parameters, own, `${path}.parameters`);
  return [{ tool: { type: "function", function: { name, ...bodyOf(tool) } }, grammar: undefined, origin }];
}

function readNamespace({ name, tools }: JsonObject, path: string): readonly ReadTool[] {
  const namespace = expectToolName(name, `${path}.name`);
  if (!Array.isArray(tools)) throw missingParameter(`${path}.tools`);
  return tools.flatMap((tool: unknown, i) => {
    return isObject(tool) ? readTool(tool, `${path}.tools[${i}]`, namespace) : [];
  });
}

function bodyOf({ description, parameters, strict }: JsonObject): Omit<ChatTool["function"], "name"> {
  return {
    ...(typeof description === "string" ? { description } : {}),
    ...(isObject(parameters) ? { parameters } : {}),
    ...(typeof strict === "boolean" ? { strict } : {}),
  };
}

function nameOf({ name, namespace }: JsonObject): string | undefined {
  if (typeof name !== "string") return undefined;
  return chatToolName(name, typeof namespace === "string" ? namespace : undefined);
}

/** Tools that items of the conversation bring along. */
export function addedTools(items: readonly JsonObject[]): readonly JsonObject[] {
  return items.flatMap(({ type, tools }) => {
    if (type !== "additional_tools" && type !== "tool_search_output") return [];
    return Array.isArray(tools) ? tools.filter(isObject) : [];
  });
}
