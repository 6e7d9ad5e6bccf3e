/** `text` of a request: form and length of the answer. Source: OpenAI's API reference, "Create a model response", `text`. */
import { invalidParameter } from "../../api/api-error.ts";
import {
  anyObject,
  type JsonObject,
  mapped,
  object,
  oneOf,
  optional,
  required,
  type Schema,
  string,
} from "../../api/schema.ts";

export interface TextOptions {
  /** As it came. */
  readonly format?: JsonObject | undefined;
  readonly verbosity?: "low" | "medium" | "high" | undefined;
}

interface SchemaFormat {
  readonly name: string;
  readonly schema: JsonObject;
}

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const TYPE = oneOf("text", "json_object", "json_schema");
const SCHEMA_FORMAT: Schema<SchemaFormat> = object<SchemaFormat>({
  name: required(mapped(string(), expectName)),
  schema: required(anyObject()),
});

export const TEXT: Schema<TextOptions> = object<TextOptions>({
  format: optional(mapped(anyObject(), readFormat)),
  verbosity: optional(oneOf("low", "medium", "high")),
});

/** @throws ApiError */
function readFormat(format: JsonObject, path: string): JsonObject {
  const type = TYPE.read(format.type, `${path}.type`);
  if (type === "json_schema") SCHEMA_FORMAT.read(format, path);
  return format;
}

function expectName(name: string, path: string): string {
  if (NAME.test(name)) return name;
  const text = `Invalid '${path}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`;
  throw invalidParameter(path, "invalid_value", text);
}

/** In the terms of a chat's `response_format`, which has a level more. Undefined: the text is free. */
export function responseFormat(text: TextOptions | undefined): JsonObject | undefined {
  const format = text?.format;
  if (format === undefined || format.type === "text") return undefined;
  if (format.type !== "json_schema") return { type: format.type };
  const { name, schema, strict } = format;
  return { type: "json_schema", json_schema: { name, schema, strict } };
}
