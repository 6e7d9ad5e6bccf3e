/** Tools of a chat request and which of them must be called. Source: OpenAI's API reference, `tools`, `tool_choice`. */
import type { ChatTool, InputGrammars, ToolChoice } from "../../../chat/chat-contract.ts";
import { invalidParameter, missingParameter } from "../../api/api-error.ts";
import { anyObject, isObject, type JsonObject, shown } from "../../api/schema.ts";
import { type CustomTool, readCustomTool } from "../custom-tool.ts";
import { expectStrict } from "../strict-schema.ts";
import { readToolChoice } from "../tool-choice.ts";

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
  /** Grammars of custom tools. */
  readonly inputs?: InputGrammars | undefined;
}

/** Tools of a chat: calls of custom tools come back as such. */
export interface ChatTools extends Tools {
  /** Names. */
  readonly custom: ReadonlySet<string>;
}

const NAME = /^[a-zA-Z0-9_.:-]{1,128}$/;

/** @throws ApiError */
export function readTools(fields: ToolFields): ChatTools {
  const isOld = fields.tools === undefined && fields.functions !== undefined;
  const param = isOld ? "functions" : "tools";
  const given = isOld ? (fields.functions ?? []).map((each) => ({ type: "function", function: each })) : fields.tools;
  // Tools of other types (web search) belong to OpenAI's own services: clients that offer them still work.
  const read = (given ?? []).flatMap((tool, i) => readTool(tool, `${param}[${i}]`));
  const allowed = readToolChoice({
    value: isOld ? fields.function_call : fields.tool_choice,
    param: isOld ? "function_call" : "tool_choice",
    tools: read.map(({ tool }) => tool),
    numGiven: given?.length ?? 0,
    namedTypes: ["function", "custom"],
    nameOf,
  });
  const custom = new Set(read.flatMap(({ tool, isCustom }) => (isCustom ? [tool.function.name] : [])));
  return { ...allowed, isParallel: fields.parallel_tool_calls ?? true, inputs: inputGrammars(read), custom };
}

/** By the names that the model sees. */
export function inputGrammars(tools: readonly CustomTool[]): InputGrammars {
  return new Map(tools.flatMap(({ tool, grammar }) => (grammar === undefined ? [] : [[tool.function.name, grammar]])));
}

interface ReadTool extends CustomTool {
  readonly isCustom: boolean;
}

function readTool(tool: JsonObject, path: string): ReadTool[] {
  if (tool.type === undefined) throw missingParameter(`${path}.type`);
  if (tool.type === "custom") {
    if (!isObject(tool.custom)) throw missingParameter(`${path}.custom`);
    const name = expectToolName(tool.custom.name, `${path}.custom.name`);
    return [{ ...readCustomTool(tool.custom, name, `${path}.custom`), isCustom: true }];
  }
  if (tool.type !== "function") return [];
  return [{ tool: readFunction(tool, path), grammar: undefined, isCustom: false }];
}

function readFunction(tool: JsonObject, path: string): ChatTool {
  const given = tool.function;
  if (!isObject(given)) throw missingParameter(`${path}.function`);
  const { name, description, parameters, strict } = given;
  if (strict === true) expectStrictTool(parameters, name, `${path}.function.parameters`);
  return {
    type: "function",
    function: {
      name: expectToolName(name, `${path}.function.name`),
      ...(typeof description === "string" ? { description } : {}),
      ...parametersOf(parameters, String(name), `${path}.function.parameters`),
      ...(typeof strict === "boolean" ? { strict } : {}),
    },
  };
}

/** @throws ApiError */
export function expectStrictTool(parameters: unknown, name: unknown, path: string): void {
  expectStrict(parameters, `function '${shown(name)}'`, path, "invalid_function_parameters");
}

/** @throws ApiError for what is no schema of an object */
function parametersOf(parameters: unknown, name: string, path: string): Pick<ChatTool["function"], "parameters"> {
  if (parameters === undefined || parameters === null) return {};
  const schema = anyObject().read(parameters, path);
  const { type } = schema;
  if (type === undefined || type === "object" || (Array.isArray(type) && type.includes("object"))) {
    return { parameters: schema };
  }
  const text = `Invalid schema for function '${name}': schema must be a JSON Schema of 'type: "object"', got 'type: ${JSON.stringify(type)}'.`;
  throw invalidParameter(path, "invalid_function_parameters", text);
}

/** @throws ApiError */
export function expectToolName(name: unknown, path: string): string {
  if (name === undefined) throw missingParameter(path);
  if (typeof name === "string" && NAME.test(name)) return name;
  const text = `Invalid '${path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`;
  throw invalidParameter(path, "invalid_value", text);
}

function nameOf(value: JsonObject): string | undefined {
  const named = [value.function, value.custom].find(isObject) ?? value;
  const { name } = named;
  return typeof name === "string" ? name : undefined;
}
