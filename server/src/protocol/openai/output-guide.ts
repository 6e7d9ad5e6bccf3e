/**
 * The required form of an output: OpenAI's `response_format`, and vLLM's guided decoding by its old and its present
 * names. Sources: OpenAI's "Structured model outputs"; vLLM's "Structured outputs".
 */
import type { OutputGuide } from "../../chat/chat-contract.ts";
import type { TextRequest } from "../../text-model/text-request.ts";
import { invalidParameter, missingParameter, unsupportedValue } from "../api/api-error.ts";
import { anyObject, isObject, type JsonObject, shown } from "../api/schema.ts";
import { expectStrict } from "./strict-schema.ts";

export interface GuideFields {
  readonly response_format?: JsonObject | undefined;
  readonly guided_json?: unknown;
  readonly guided_regex?: string | undefined;
  readonly guided_grammar?: string | undefined;
  readonly guided_choice?: readonly string[] | undefined;
  readonly structured_outputs?: JsonObject | undefined;
}

type Guide = TextRequest["guide"];

/** @throws ApiError */
export function guideOf(fields: GuideFields): Guide {
  const { response_format: format, structured_outputs: outputs } = fields;
  if (format !== undefined) return formatGuide(format);
  if (outputs !== undefined) {
    return vllmGuide(outputs.json, textOf(outputs.regex), textOf(outputs.grammar), listOf(outputs.choice));
  }
  return vllmGuide(fields.guided_json, fields.guided_regex, fields.guided_grammar, fields.guided_choice);
}

function formatGuide(format: JsonObject): OutputGuide | undefined {
  switch (format.type) {
    case "text":
      return undefined;
    case "json_object":
      return { type: "json", text: "" };
    case "json_schema":
      return { type: "json_schema", text: JSON.stringify(schemaOf(format.json_schema)) };
    case "structural_tag":
      return { type: "structural_tag", text: JSON.stringify(format) };
    case "grammar":
      return { type: "ebnf_grammar", text: textOf(format.grammar) ?? "" };
    case undefined:
      throw missingParameter("response_format.type");
    default:
      throw unsupportedValue(
        "response_format.type",
        "Supported values are: 'text', 'json_object', 'json_schema', 'structural_tag', and 'grammar'.",
      );
  }
}

const SCHEMA_PARAM = "response_format.json_schema.schema";

/** The schema itself lies in `json_schema.schema`; absent: any object. @throws ApiError */
function schemaOf(value: unknown): unknown {
  if (!isObject(value)) throw missingParameter("response_format.json_schema");
  const name = value.name;
  if (typeof name === "string" && !/^[a-zA-Z0-9_-]{1,64}$/.test(name)) {
    const text = `Invalid 'response_format.json_schema.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`;
    throw invalidParameter("response_format.json_schema.name", "invalid_value", text);
  }
  const { schema } = value;
  if (value.strict === true) expectStrict(schema, `response_format '${shown(name)}'`, "response_format", null);
  if (typeof schema === "boolean") return schema;
  return schema === undefined || schema === null ? { type: "object" } : anyObject().read(schema, SCHEMA_PARAM);
}

function vllmGuide(
  json: unknown,
  regex: string | undefined,
  grammar: string | undefined,
  choices: readonly string[] | undefined,
): Guide {
  if (json !== undefined && json !== null) {
    return { type: "json_schema", text: typeof json === "string" ? json : JSON.stringify(json) };
  }
  if (regex !== undefined) return { type: "regex", text: regex };
  if (grammar !== undefined) return { type: "ebnf_grammar", text: grammar };
  return choices === undefined ? undefined : { type: "choice", text: JSON.stringify(choices) };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function listOf(value: unknown): readonly string[] | undefined {
  return Array.isArray(value) ? value.map(String) : undefined;
}
