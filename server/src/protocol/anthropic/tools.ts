/**
 * Tools of a request and which of them must be called. Source: Anthropic's API reference, "Messages", `tools`,
 * `tool_choice`; "Bash tool" and "Text editor tool" for tools that clients run.
 */
import type { ChatTool, ToolChoice } from "../../chat/chat-contract.ts";
import { invalidParameter, missingParameter, unsupportedValue } from "../api/api-error.ts";
import { isObject, type JsonObject, type JsonSchema } from "../api/schema.ts";
import type { Tools } from "../openai/chat/tools.ts";

const NAME = /^[a-zA-Z0-9_.:-]{1,128}$/;

interface KnownTool {
  readonly type: RegExp;
  readonly description: string;
  readonly parameters: JsonSchema;
}

const TEXT: JsonSchema = { type: "string" };
const LINE: JsonSchema = { type: "integer", minimum: 0 };

/** Tools without a schema in the request, whose arguments Anthropic's models know by heart. */
const KNOWN_TOOLS: readonly KnownTool[] = [
  {
    type: /^bash_\d+$/,
    description: "Run a command in a bash shell that stays open between calls.",
    parameters: { type: "object", properties: { command: TEXT, restart: { type: "boolean" } } },
  },
  {
    type: /^text_editor_\d+$/,
    description: "View, create and edit text files.",
    parameters: {
      type: "object",
      properties: {
        command: { type: "string", enum: ["view", "create", "str_replace", "insert"] },
        path: TEXT,
        file_text: TEXT,
        old_str: TEXT,
        new_str: TEXT,
        insert_line: LINE,
        insert_text: TEXT,
        view_range: { type: "array", items: { type: "integer" }, minItems: 2, maxItems: 2 },
      },
      required: ["command", "path"],
    },
  },
];

/** @throws ApiError */
export function readTools(tools: readonly JsonObject[] | undefined, choice: JsonObject | undefined): Tools {
  const list = (tools ?? []).flatMap((tool, i) => readTool(tool, `tools[${i}]`));
  return { list, choice: readChoice(choice, list), isParallel: choice?.disable_parallel_tool_use !== true };
}

/** Tools that Anthropic's own service would run are left out: clients that offer them still work. */
function readTool(tool: JsonObject, path: string): readonly ChatTool[] {
  const { type, name, description, input_schema: schema, strict } = tool;
  const known = KNOWN_TOOLS.find((each) => typeof type === "string" && each.type.test(type));
  if (type !== undefined && type !== null && type !== "custom" && known === undefined) return [];
  if (name === undefined) throw missingParameter(`${path}.name`);
  if (typeof name !== "string" || !NAME.test(name)) {
    const text = `Invalid '${path}.name': expected a string that matches the pattern '^[a-zA-Z0-9_-]{1,128}$'.`;
    throw invalidParameter(`${path}.name`, "invalid_value", text);
  }
  if (known === undefined && !isObject(schema)) throw missingParameter(`${path}.input_schema`);
  const parameters = known?.parameters ?? (isObject(schema) ? schema : {});
  return [
    {
      type: "function",
      function: {
        name,
        description: typeof description === "string" ? description : known?.description,
        parameters,
        ...(typeof strict === "boolean" ? { strict } : {}),
      },
    },
  ];
}

function readChoice(choice: JsonObject | undefined, tools: readonly ChatTool[]): ToolChoice {
  switch (choice?.type) {
    case undefined:
    case "auto":
      return tools.length === 0 ? "none" : "auto";
    case "none":
      return "none";
    case "any":
      if (tools.length === 0) throw noTools();
      return "required";
    case "tool":
      return namedChoice(choice?.name, tools);
    default:
      throw unsupportedValue("tool_choice.type", "Supported values are: 'auto', 'any', 'tool', and 'none'.");
  }
}

function namedChoice(name: unknown, tools: readonly ChatTool[]): ToolChoice {
  if (typeof name !== "string") throw missingParameter("tool_choice.name");
  if (tools.some((tool) => tool.function.name === name)) return { name };
  throw invalidParameter(
    "tool_choice.name",
    "invalid_value",
    `Tool '${name.slice(0, 200)}' not found in provided tools`,
  );
}

function noTools(): Error {
  return invalidParameter("tool_choice", "invalid_value", "tool_choice may only be specified while providing tools");
}
