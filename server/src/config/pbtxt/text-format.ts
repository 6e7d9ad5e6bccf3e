/**
 * Parses `config.pbtxt` against the schema; errors state location, field and fix. Source: protobuf.dev, "Text Format
 * Language Specification". Two leniencies that existing files need: commas between list messages are optional, and a
 * list may end with a comma. A known template placeholder gives a note, not an error. Defaults and rules across fields
 * are applied elsewhere.
 */

import { uint64Text } from "../../core/json-object.ts";
import type { ServerError } from "../../core/server-error.ts";
import { type FieldSpec, type MessageSpec, messageSpec, type ScalarType, type ValueSpec } from "../model/schema.ts";
import { emptyRecord, type WrittenMessage, type WrittenValue } from "../model/written-message.ts";
import { isPlaceholderText, placeholderName, standInOf, unfilledText } from "./placeholders.ts";
import { expectedOf, isIntegerType, parseBooleanText, parseFloatText, parseInteger, rangeText } from "./scalar-text.ts";
import { enumHint, unknownFieldHint } from "./text-hints.ts";
import { errorAt, type Token, tokenize } from "./text-tokens.ts";

/** Called for a leniently parsed location: `file:line:column: problem and fix`. */
export type OnNote = (text: string) => void;

/** @throws ServerError("invalid_argument") with `file:line:column: problem and fix` */
export function parseTextMessage(
  text: string,
  file: string,
  messageName: string,
  onNote: OnNote = () => undefined,
): WrittenMessage {
  return new TextReader(tokenize(text, file), file, onNote).readAll(messageName);
}

const CLOSERS: ReadonlyMap<string, string> = new Map([
  ["{", "}"],
  ["<", ">"],
]);

class TextReader {
  readonly #tokens: readonly Token[];
  readonly #file: string;
  readonly #onNote: OnNote;
  #position = 0;

  constructor(tokens: readonly Token[], file: string, onNote: OnNote) {
    this.#tokens = tokens;
    this.#file = file;
    this.#onNote = onNote;
  }

  readAll(messageName: string): WrittenMessage {
    return this.#fields(messageName, messageSpec(messageName), undefined, undefined);
  }

  /** Fields up to `closer`, or to the end of the file when there is none. */
  #fields(name: string, spec: MessageSpec, closer: string | undefined, opened: Token | undefined): WrittenMessage {
    const message = emptyRecord<WrittenValue>();
    const chosen = new Map<string, string>();
    for (;;) {
      const token = this.#peek();
      if (closer !== undefined && this.#accept(closer)) return message;
      if (token.kind === "end" && closer === undefined) return message;
      if (token.kind === "end") {
        throw this.#error(
          token,
          `the file ends inside the block opened at line ${opened?.line}; add the missing '${closer}'`,
        );
      }
      this.#field(name, spec, message, chosen);
      if (!this.#accept(",")) this.#accept(";");
    }
  }

  #field(owner: string, spec: MessageSpec, message: Record<string, WrittenValue>, chosen: Map<string, string>): void {
    const token = this.#next();
    if (token.kind !== "identifier") throw this.#error(token, `expected the name of a field, got ${described(token)}`);
    const field = spec.get(token.text);
    if (field === undefined) throw this.#error(token, unknownFieldHint(token.text, owner, spec));
    this.#refuseSecondWriting(token, field, message, chosen);
    const hasColon = this.#accept(":");
    const takesBlock = field.shape === "map" || field.value.kind === "message";
    if (!hasColon && !takesBlock) {
      throw this.#error(this.#peek(), `expected ':' after field '${field.name}', got ${described(this.#peek())}`);
    }
    const values = this.#values(field);
    if (field.shape === "map") putEntries(message, field, values);
    else if (field.shape === "list") message[field.name] = [...listOf(message[field.name]), ...values];
    else message[field.name] = values[0] ?? "";
  }

  #refuseSecondWriting(token: Token, field: FieldSpec, message: WrittenMessage, chosen: Map<string, string>): void {
    if (field.shape === "single" && field.name in message) {
      throw this.#error(token, `field '${field.name}' is written more than once; keep one of them`);
    }
    if (field.choice === undefined) return;
    const other = chosen.get(field.choice);
    if (other !== undefined) {
      throw this.#error(
        token,
        `field '${field.name}' cannot be written beside '${other}': both are members of '${field.choice}', of which one may be set`,
      );
    }
    chosen.set(field.choice, field.name);
  }

  #values(field: FieldSpec): WrittenValue[] {
    const open = this.#peek();
    if (field.shape === "single" || !this.#accept("[")) return [this.#filledValue(field)];
    const values: WrittenValue[] = [];
    const isBlock = field.shape === "map" || field.value.kind === "message";
    while (!this.#accept("]")) {
      if (this.#peek().kind === "end") {
        throw this.#error(
          this.#peek(),
          `the file ends inside the list opened at line ${open.line}; add the missing ']'`,
        );
      }
      values.push(this.#filledValue(field));
      const hasComma = this.#accept(",");
      if (!hasComma && !isBlock && this.#peek().text !== "]") {
        throw this.#error(
          this.#peek(),
          `expected ',' or ']' in the list of '${field.name}', got ${described(this.#peek())}`,
        );
      }
    }
    return values;
  }

  /** The value, or the default of an unfilled template placeholder. */
  #filledValue(field: FieldSpec): WrittenValue {
    const token = this.#peek();
    const standIn = isUnfilled(field, token) ? standInOf(token.text) : undefined;
    if (standIn === undefined) return this.#value(field);
    this.#next();
    this.#onNote(this.#error(token, unfilledText(field.name, token.text, standIn)).message);
    return new TextReader(tokenize(standIn, this.#file), this.#file, this.#onNote).#value(field);
  }

  #value(field: FieldSpec): WrittenValue {
    if (field.shape === "map") return this.#block(field, "entry", entrySpec(field));
    const { value } = field;
    if (value.kind === "message") return this.#block(field, value.name, messageSpec(value.name));
    const token = this.#next();
    if (token.kind === "placeholder") throw this.#error(token, placeholderText(field, token));
    return value.kind === "enum" ? this.#enum(field, value, token) : this.#scalar(field, value.type, token);
  }

  #block(field: FieldSpec, name: string, spec: MessageSpec): WrittenMessage {
    const open = this.#next();
    const closer = open.kind === "symbol" ? CLOSERS.get(open.text) : undefined;
    if (open.kind === "placeholder") throw this.#error(open, placeholderText(field, open));
    if (closer === undefined)
      throw this.#error(open, `field '${field.name}' expects a block '{ ... }', got ${described(open)}`);
    return this.#fields(name, spec, closer, open);
  }

  #enum(field: FieldSpec, spec: Extract<ValueSpec, { kind: "enum" }>, token: Token): string {
    const named = token.kind === "identifier" && spec.values.includes(token.text) ? token.text : undefined;
    const numbered = token.kind === "number" ? spec.values[parseInteger(token.text, "int32") as number] : undefined;
    const value = named ?? numbered;
    if (value === undefined) {
      throw this.#error(token, `field '${field.name}' got ${described(token)}; ${enumHint(token.text, spec.values)}`);
    }
    return value;
  }

  #scalar(field: FieldSpec, type: ScalarType, token: Token): WrittenValue {
    if (type === "string") return this.#text(field, token);
    const isNegative = token.kind === "symbol" && token.text === "-";
    const number = isNegative ? this.#next() : token;
    if (number.kind === "placeholder") throw this.#error(number, placeholderText(field, number));
    const text = `${isNegative ? "-" : ""}${number.text}`;
    const isWord = number.kind === "identifier" || number.kind === "number";
    const value = isWord ? scalarOf(text, type) : undefined;
    if (value === "range" && isIntegerType(type)) {
      throw this.#error(token, `field '${field.name}' takes ${type} values from ${rangeText(type)}, got ${text}`);
    }
    if (value === undefined || value === "range")
      throw this.#error(token, this.#wrongScalar(field, type, number, text));
    return value;
  }

  #wrongScalar(field: FieldSpec, type: ScalarType, number: Token, text: string): string {
    const shown = number.kind === "number" ? `'${text}'` : described(number);
    const isQuoted = number.kind === "string" && scalarOf(number.text, type) !== undefined;
    const fix = isQuoted ? `; write ${number.text} without quotes` : "";
    return `field '${field.name}' expects ${expectedOf(type)}, got ${shown}${fix}`;
  }

  /** Adjacent string literals are concatenated. */
  #text(field: FieldSpec, first: Token): string {
    if (first.kind !== "string") {
      const fix = first.kind === "identifier" || first.kind === "number" ? `; write "${first.text}"` : "";
      throw this.#error(first, `field '${field.name}' expects a quoted text, got ${described(first)}${fix}`);
    }
    let text = first.text;
    while (this.#peek().kind === "string") text += this.#next().text;
    return text;
  }

  #peek(): Token {
    return this.#tokens[Math.min(this.#position, this.#tokens.length - 1)] as Token;
  }

  #next(): Token {
    const token = this.#peek();
    this.#position++;
    return token;
  }

  #accept(symbol: string): boolean {
    const token = this.#peek();
    const isThere = token.kind === "symbol" && token.text === symbol;
    if (isThere) this.#position++;
    return isThere;
  }

  #error(token: Token, message: string): ServerError {
    return errorAt(this.#file, token, message);
  }
}

function scalarOf(text: string, type: ScalarType): number | boolean | "range" | undefined {
  if (isIntegerType(type)) return parseInteger(text, type);
  if (type === "float" || type === "double") return parseFloatText(text, type);
  return type === "bool" ? parseBooleanText(text) : undefined;
}

/** A map is written as a list of `{ key: .. value: .. }`. */
function entrySpec(field: FieldSpec): MessageSpec {
  const key: ValueSpec = { kind: "scalar", type: field.key };
  const common = { shape: "single", key: "string", isPrintedAsText: false, choice: undefined } as const;
  return new Map([
    ["key", { ...common, name: "key", value: key }],
    ["value", { ...common, name: "value", value: field.value }],
  ]);
}

function putEntries(message: Record<string, WrittenValue>, field: FieldSpec, entries: readonly WrittenValue[]): void {
  const map = (message[field.name] as Record<string, WrittenValue> | undefined) ?? emptyRecord<WrittenValue>();
  message[field.name] = map;
  for (const entry of entries as readonly WrittenMessage[]) {
    const { key: written = field.key === "uint64" ? 0 : "" } = entry;
    const key = typeof written === "number" ? uint64Text(written) : String(written);
    map[key] = entry.value ?? (field.value.kind === "message" ? emptyRecord<WrittenValue>() : "");
  }
}

function listOf(value: WrittenValue | undefined): readonly WrittenValue[] {
  return Array.isArray(value) ? value : [];
}

function described(token: Token): string {
  if (token.kind === "end") return "the end of the file";
  return token.kind === "string" ? `the text "${token.text}"` : `'${token.text}'`;
}

/** Placeholders in parameters stay: the backend knows their meaning. */
function isUnfilled(field: FieldSpec, token: Token): boolean {
  if (token.kind === "placeholder") return true;
  const isSingleText = field.shape === "single" && field.name !== "string_value";
  return isSingleText && token.kind === "string" && isPlaceholderText(token.text);
}

function placeholderText(field: FieldSpec, token: Token): string {
  const { value } = field;
  const wanted = value.kind === "scalar" ? expectedOf(value.type) : value.kind === "enum" ? "a name" : "a block";
  return (
    `field '${field.name}' expects ${wanted}, got the unfilled template placeholder '${token.text}'; ` +
    `fill it with 'nereid fill-template -i config.pbtxt ${placeholderName(token.text)}:<value>' or write the value in its place`
  );
}
