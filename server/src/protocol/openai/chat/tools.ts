/** Tools of a chat request and which of them must be called. Source: OpenAI's API reference, `tools`, `tool_choice`. */
import type { ChatTool, ToolChoice } from "../../../chat/chat-contract.ts";
import { invalidParameter, missingParameter } from "../../api/api-error.ts";
import { isObject, type JsonObject } from "../../api/schema.ts";

export interface ToolFields {
  readonly tools?: readonly JsonObject[] | undefined;
  readonly tool_choice?: unknown;
  /** The older form of tools. */
  readonly functions?: readonly JsonObject[] | undefined;
  readonly function_call?: unknown;
  readonly parallel_tool_calls?: boolean | undefined;
}

export interface Tools {
  readonly list: readonly ChatTool[];
  readonly choice: ToolChoice;
  readonly isParallel: boolean;
}

const NAME = /^[a-zA-Z0-9_.:-]{1,128}$/;

/** @throws ApiError */
export function readTools(fields: ToolFields): Tools {
  const isOld = fields.tools === undefined && fields.functions !== undefined;
  const param = isOld ? "functions" : "tools";
  const given = isOld ? (fields.functions ?? []).map((each) => ({ type: "function", function: each })) : fields.tools;
  // Tools of other types (web search, custom) belong to OpenAI's own services: clients that offer them still work.
  const list = (given ?? []).flatMap((tool, i) => readTool(tool, `${param}[${i}]`));
  const choiceParam = isOld ? "function_call" : "tool_choice";
  const choice = readChoice(isOld ? fields.function_call : fields.tool_choice, choiceParam, list);
  return { list, choice, isParallel: fields.parallel_tool_calls ?? true };
}

function readTool(tool: JsonObject, path: string): ChatTool[] {
  if (tool.type === undefined) throw missingParameter(`${path}.type`);
  if (tool.type !== "function") return [];
  const given = tool.function;
  if (!isObject(given)) throw missingParameter(`${path}.function`);
  const { name, description, parameters, strict } = given;
  return [
    {
      type: "function",
      function: {
        name: expectToolName(name, `${path}.function.name`),
        ...(typeof description === "string" ? { description } : {}),
        ...(isObject(parameters) ? { parameters } : {}),
        ...(typeof strict === "boolean" ? { strict } : {}),
      },
    },
  ];
}

/** @throws ApiError */
export function expectToolName(name: unknown, path: string): string {
  if (name === undefined) throw missingParameter(path);
  if (typeof name === "string" && NAME.test(name)) return name;
  const text = `Invalid '${path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`;
  throw invalidParameter(path, "invalid_value", text);
}

function readChoice(value: unknown, param: string, tools: readonly ChatTool[]): ToolChoice {
  if (value === undefined || value === null) return tools.length === 0 ? "none" : "auto";
  if (value === "none") return "none";
  if (tools.length === 0) {
    const text = `Invalid value for '${param}': '${param}' is only allowed when 'tools' are specified.`;
    throw invalidParameter(param, "invalid_value", text);
  }
  if (value === "auto" || value === "required") return value;
  if (value === "any") return "required";
  const name = nameOf(value);
  if (name === undefined) {
    const text = `Invalid value for '${param}': expected 'none', 'auto', 'required', or an object that names a function.`;
    throw invalidParameter(param, "invalid_value", text);
  }
  if (tools.some((tool) => tool.function.name === name)) return { name };
  throw invalidParameter(param, "invalid_value", `Tool choice '${name}' not found in 'tools' parameter.`);
}

function nameOf(value: unknown): string | undefined {
  if (!isObject(value)) return undefined;
  const { name } = isObject(value.function) ? value.function : value;
  return typeof name === "string" ? name : undefined;
}
