/**
 * Custom tools: the model sees a function with one text `input`, whose grammar holds for that text. Sources: OpenAI's API
 * reference, `tools` of the type `custom` of chats and of responses; guide "Function calling", custom tools.
 */
import type { ChatTool } from "../../chat/chat-contract.ts";
import { GrammarError, type InputGrammar, readInputGrammar } from "../../chat/input-grammar/input-grammar.ts";
import { invalidParameter, missingParameter } from "../api/api-error.ts";
import { isObject, type JsonObject, shown } from "../api/schema.ts";

const PARAMETERS: JsonObject = {
  type: "object",
  properties: { input: { type: "string" } },
  required: ["input"],
  additionalProperties: false,
};

export interface CustomTool {
  readonly tool: ChatTool;
  /** Undefined: any text. */
  readonly grammar: InputGrammar | undefined;
}

interface GivenGrammar {
  readonly syntax: "lark" | "regex";
  readonly definition: string;
}

/** `name`: as the model sees it. `path`: of the object with `description` and `format`. @throws ApiError */
export function readCustomTool({ description, format }: JsonObject, name: string, path: string): CustomTool {
  const given = readFormat(format, `${path}.format`);
  const own = typeof description === "string" ? description : "";
  const told =
    given === undefined ? own : `${own}\n\nThe input follows this ${given.syntax} grammar:\n${given.definition}`;
  return {
    tool: { type: "function", function: { name, description: told.trim(), parameters: PARAMETERS } },
    grammar: given === undefined ? undefined : grammarOf(given, name, `${path}.format`),
  };
}

function grammarOf({ syntax, definition }: GivenGrammar, name: string, path: string): InputGrammar {
  try {
    return readInputGrammar(syntax, definition);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const text = `Invalid ${syntax} grammar of the tool '${name}': ${error.message}.`;
    throw invalidParameter(`${path}.definition`, "invalid_value", text);
  }
}

/** Chats nest the grammar one level deeper. @throws ApiError */
function readFormat(format: unknown, path: string): GivenGrammar | undefined {
  if (format === undefined || format === null) return undefined;
  if (!isObject(format) || format.type === undefined) throw missingParameter(`${path}.type`);
  if (format.type === "text") return undefined;
  if (format.type !== "grammar") throw wrongValue(`${path}.type`, format.type, "'text' and 'grammar'");
  const { syntax, definition } = isObject(format.grammar) ? format.grammar : format;
  if (syntax === undefined) throw missingParameter(`${path}.syntax`);
  if (typeof definition !== "string") throw missingParameter(`${path}.definition`);
  if (syntax === "lark" || syntax === "regex") return { syntax, definition };
  throw wrongValue(`${path}.syntax`, syntax, "'lark' and 'regex'");
}

function wrongValue(path: string, value: unknown, supported: string): Error {
  const text = `Invalid value: '${shown(value)}'. Supported values are: ${supported}.`;
  return invalidParameter(path, "invalid_value", text);
}
