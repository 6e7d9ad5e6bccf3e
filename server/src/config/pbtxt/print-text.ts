/**
 * Writes a configuration as `config.pbtxt`: fields in the order of the schema, one a line, lists of numbers in one line. Source:
 * protobuf.dev, "Text Format Language Specification". `parseTextMessage` reads the same values back. Pure.
 */
import { type FieldSpec, messageSpec, type ValueSpec } from "../model/schema.ts";
import type { WrittenMessage, WrittenValue } from "../model/written-message.ts";

const INDENT = "  ";

/** `message` holds fields of the schema only, as the readers of a configuration make it. */
export function printTextMessage(message: WrittenMessage, messageName: string): string {
  return linesOf(message, messageName)
    .map((line) => `${line}\n`)
    .join("");
}

function linesOf(message: WrittenMessage, messageName: string): string[] {
  const lines: string[] = [];
  for (const field of messageSpec(messageName).values()) {
    const value = message[field.name];
    if (value !== undefined) lines.push(...fieldLines(field, value));
  }
  return lines;
}

function fieldLines(field: FieldSpec, value: WrittenValue): string[] {
  if (field.shape === "map") {
    const isText = field.key === "string";
    return Object.entries(value as WrittenMessage).flatMap(([key, each]) =>
      block(`${field.name} `, [`key: ${isText ? quoted(key) : key}`, ...valueLines("value", field.value, each)]),
    );
  }
  if (field.shape === "single") return valueLines(field.name, field.value, value);
  const values = value as readonly WrittenValue[];
  if (field.value.kind === "message") return values.flatMap((each) => valueLines(field.name, field.value, each));
  return [`${field.name}: [ ${values.map((each) => scalarText(field.value, each)).join(", ")} ]`];
}

function valueLines(name: string, spec: ValueSpec, value: WrittenValue): string[] {
  if (spec.kind === "message") return block(`${name} `, linesOf(value as WrittenMessage, spec.name));
  return [`${name}: ${scalarText(spec, value)}`];
}

function block(head: string, lines: readonly string[]): string[] {
  if (lines.length === 0) return [`${head}{ }`];
  return [`${head}{`, ...lines.map((line) => INDENT + line), "}"];
}

function scalarText(spec: ValueSpec, value: WrittenValue): string {
  if (spec.kind === "scalar" && spec.type === "string") return quoted(String(value));
  if (value === Number.POSITIVE_INFINITY) return "inf";
  if (value === Number.NEGATIVE_INFINITY) return "-inf";
  if (typeof value === "number" && Number.isNaN(value)) return "nan";
  return String(value);
}

/** Escapes that the format and JSON share; other control characters as three octal digits. */
function quoted(text: string): string {
  const escaped = [...text].map((character) => ESCAPES.get(character) ?? octalIfControl(character));
  return `"${escaped.join("")}"`;
}

function octalIfControl(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return code < FIRST_PRINTABLE || code === DELETE ? `\\${code.toString(8).padStart(3, "0")}` : character;
}

const FIRST_PRINTABLE = 0x20;
const DELETE = 0x7f;
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['"', '\\"'],
  ["\\", "\\\\"],
  ["\n", "\\n"],
  ["\r", "\\r"],
  ["\t", "\\t"],
]);
