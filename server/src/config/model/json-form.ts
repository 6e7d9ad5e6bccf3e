/**
 * Parses a model configuration in JSON (the `config` parameter of a load request). Source: protobuf.dev, "ProtoJSON
 * Format". Defaults and rules across fields are applied elsewhere.
 */

import { shownValue, uint64Text } from "../../core/json-object.ts";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import {
  expectedOf,
  type IntegerType,
  isIntegerType,
  parseFloatText,
  parseInteger,
  rangeText,
} from "../pbtxt/scalar-text.ts";
import { enumHint, unknownFieldHint } from "../pbtxt/text-hints.ts";
import { strictJson } from "./relaxed-json.ts";
import { type FieldSpec, type MessageSpec, messageSpec, type ScalarType, type ValueSpec } from "./schema.ts";
import { emptyRecord, type WrittenMessage, type WrittenValue } from "./written-message.ts";

/** @throws ServerError("invalid_argument") beginning with "Invalid config override: " */
export function parseJsonMessage(json: string, messageName: string): WrittenMessage {
  let parsed: unknown;
  try {
    parsed = parseRelaxed(json);
  } catch (cause) {
    throw invalid(`not valid JSON (${cause instanceof Error ? cause.message : "unreadable"})`);
  }
  return readMessage(parsed, messageName, "");
}

/** @throws SyntaxError about the text as it was written */
function parseRelaxed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch (cause) {
    const strict = strictJson(json);
    if (strict === json) throw cause;
    return JSON.parse(strict);
  }
}

function invalid(message: string): ServerError {
  return invalidArgument(`Invalid config override: ${message}`);
}

function readMessage(json: unknown, name: string, path: string): WrittenMessage {
  const spec = messageSpec(name);
  const message = emptyRecord<WrittenValue>();
  const chosen = new Map<string, string>();
  for (const [key, value] of Object.entries(objectOf(json, path))) {
    const field = fieldOf(spec, key);
    if (field === undefined) throw invalid(unknownFieldHint(key, path === "" ? name : path, spec));
    if (value === null) continue;
    const at = path === "" ? field.name : `${path}.${field.name}`;
    if (field.name in message) throw invalid(`'${at}' is written twice`);
    refuseSecondChoice(field, chosen, at);
    message[field.name] = readField(field, value, at);
  }
  return message;
}

function objectOf(json: unknown, path: string): Record<string, unknown> {
  if (typeof json === "object" && json !== null && !Array.isArray(json)) return json as Record<string, unknown>;
  throw invalid(`${path === "" ? "the configuration" : `'${path}'`} expects an object, got ${shownValue(json)}`);
}

function fieldOf(spec: MessageSpec, key: string): FieldSpec | undefined {
  return spec.get(key) ?? spec.get(key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
}

function refuseSecondChoice(field: FieldSpec, chosen: Map<string, string>, at: string): void {
  if (field.choice === undefined) return;
  const other = chosen.get(field.choice);
  if (other !== undefined) throw invalid(`'${at}' cannot be written beside '${other}', of which one may be set`);
  chosen.set(field.choice, at);
}

function readField(field: FieldSpec, json: unknown, at: string): WrittenValue {
  if (field.shape === "single") return readValue(field.value, json, at);
  if (field.shape === "list") {
    const list: readonly unknown[] = Array.isArray(json) ? json : [json]; // as protobuf's reader, which takes one alone
    return list.map((element, index) => readValue(field.value, element, `${at}[${index}]`));
  }
  const map = emptyRecord<WrittenValue>();
  for (const [key, element] of Object.entries(objectOf(json, at))) {
    const name = field.key === "uint64" ? uint64Text(Number(readScalar("uint64", key, `${at} key`))) : key;
    map[name] = readValue(field.value, element, `${at}["${key}"]`);
  }
  return map;
}

function readValue(spec: ValueSpec, json: unknown, at: string): WrittenValue {
  if (spec.kind === "message") return readMessage(json, spec.name, at);
  return spec.kind === "enum" ? readEnum(spec.values, json, at) : readScalar(spec.type, json, at);
}

function readEnum(values: readonly string[], json: unknown, at: string): string {
  const wanted = typeof json === "string" ? json.toUpperCase() : undefined;
  const value = typeof json === "number" ? values[json] : values.find((name) => name === wanted);
  if (value === undefined)
    throw invalid(`'${at}' got ${shownValue(json)}; ${enumHint(typeof json === "string" ? json : "", values)}`);
  return value;
}

function readScalar(type: ScalarType, json: unknown, at: string): WrittenValue {
  const value = scalarOf(type, json);
  if (value === "range" && isIntegerType(type) && json !== "range") {
    throw invalid(`'${at}' takes ${type} values from ${rangeText(type)}, got ${shownValue(json)}`);
  }
  if (value === undefined) throw invalid(`'${at}' expects ${expectedOf(type)}, got ${shownValue(json)}`);
  return value;
}

function scalarOf(type: ScalarType, json: unknown): string | number | boolean | undefined {
  if (type === "string") return typeof json === "string" ? json : undefined;
  if (type === "bool") return typeof json === "boolean" ? json : undefined;
  if (isIntegerType(type)) {
    if (typeof json === "string") return parseInteger(json, type);
    return typeof json === "number" && Number.isInteger(json) ? wholeNumber(json, type) : undefined;
  }
  if (typeof json === "number") return json;
  return typeof json === "string" ? parseFloatText(json, type) : undefined;
}

/** Above 2^53 a number does not print as an integer: its digits are those that it was rounded to. */
function wholeNumber(json: number, type: IntegerType): number | "range" | undefined {
  if (json >= 0 && json <= 2 ** 64) return parseInteger(uint64Text(json), type);
  return json < Number.MIN_SAFE_INTEGER || json > 0 ? "range" : parseInteger(String(json), type);
}
