/** Typed access to JSON (RFC 8259) members of KServe V2 requests. Errors have the words of Triton's JSON wrapper. */
import {
  JSON_ARRAY,
  JSON_OBJECT,
  JsonLimitError,
  type JsonLimits,
  JsonReader,
  type JsonShallow,
  JsonSyntaxError,
  type JsonValue,
  readDocument,
} from "@nereid/wire";
import type { ParameterValue } from "../../../core/infer-request.ts";
import { MAX_JSON_DEPTH, MAX_JSON_KEYS, MAX_JSON_STRING_BYTES } from "../../../core/limits.ts";
import { invalidArgument, ServerError } from "../../../core/server-error.ts";

/** For requests with tensors, whose data have a limit of their own on the arrays around an element. */
export const JSON_LIMITS: JsonLimits = {
  maxDepth: 2 * MAX_JSON_DEPTH,
  maxItems: MAX_JSON_KEYS,
  maxStringBytes: MAX_JSON_STRING_BYTES,
};

/** For the other routes, where a string may be a whole model file. */
const DOCUMENT_LIMITS: JsonLimits = { maxDepth: MAX_JSON_DEPTH, maxItems: MAX_JSON_KEYS };

const MAX_INT64 = 2n ** 63n - 1n;

/** Every misuse of JSON is an internal error by code, as upstream. */
export function jsonError(text: string): ServerError {
  return new ServerError("internal", text);
}

export function accessError(context: string, what: string): ServerError {
  return jsonError(`${context}attempt to access JSON ${what}`);
}

/** Gives an error of the JSON reader its position in the protocol; passes others on. */
export function jsonFailure(thrown: unknown): unknown {
  if (thrown instanceof JsonSyntaxError) {
    return jsonError(`failed to parse the request JSON buffer: ${thrown.message}`);
  }
  return thrown instanceof JsonLimitError ? invalidArgument(thrown.message) : thrown;
}

/** A whole small document. @throws ServerError */
export function parseDocument(bytes: Uint8Array): JsonValue {
  try {
    return readDocument(new JsonReader(DOCUMENT_LIMITS), bytes);
  } catch (error) {
    throw jsonFailure(error);
  }
}

type Value = JsonValue | JsonShallow | undefined;

export function expectString(value: Value, context: string): string {
  if (typeof value === "string") return value;
  throw accessError(context, "non-string as string");
}

/** A string that is handed on as one of C: it ends in front of its first NUL. */
export function expectText(value: Value, context: string): string {
  const text = expectString(value, context);
  const end = text.indexOf("\0");
  return end < 0 ? text : text.slice(0, end);
}

export function expectBoolean(value: Value, context: string): boolean {
  if (typeof value === "boolean") return value;
  throw accessError(context, "non-boolean as boolean");
}

/** An unsigned integer, possibly beyond the safe ones. */
export function expectUnsigned(value: Value, context: string): number | bigint {
  if ((typeof value === "number" || typeof value === "bigint") && value >= 0) return value;
  throw accessError(context, "non-unsigned-integer as unsigned-integer");
}

/** A member that must be there. */
export function expectMember(value: Value, name: string): Value {
  if (value !== undefined) return value;
  throw jsonError(`Unable to parse '${name}': attempt to access non-existing object member '${name}'`);
}

/** A custom request parameter. An integer above int64 becomes a double, as upstream. */
export function parameterValue(name: string, value: Value): ParameterValue {
  if (typeof value === "string") return expectText(value, "");
  if (typeof value === "boolean" || typeof value === "number") return value;
  if (typeof value === "bigint") return value > MAX_INT64 ? { double: Number(value) } : value;
  if (typeof value === "object" && value !== null && "double" in value) return value;
  throw invalidArgument(`parameter '${name}' has invalid type. It should be either 'int', 'bool', or 'string'.`);
}

export function isContainer(value: Value): boolean {
  return value === JSON_ARRAY || value === JSON_OBJECT;
}
