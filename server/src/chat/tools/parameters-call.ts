/** Reads a call whose arguments are marked one by one, and writes them as JSON. Text values are passed on as they arrive. */
import type { OutputDelta } from "../chat-contract.ts";
import type { CallReader, CallSink, ReadState } from "./call-reader.ts";
import { JsonValueScanner } from "./json-value-scanner.ts";
import { type Match, TextCursor } from "./text-cursor.ts";
import type { ParametersForm } from "./tool-row.ts";

const MAX_NAME_CHARS = 256;

export class ParametersReader implements CallReader {
  readonly #form: ParametersForm;
  readonly #sink: CallSink;
  #step: "name" | "between" | "key" | "padding" | "text" | "value" = "name";
  #tool = "";
  #numParameters = 0;

  constructor(form: ParametersForm, sink: CallSink) {
    this.#form = form;
    this.#sink = sink;
  }

  read(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    for (;;) {
      const state = this.#next(cursor, deltas);
      if (state !== "next") return state;
    }
  }

  #next(cursor: TextCursor, deltas: OutputDelta[]): ReadState | "next" {
    switch (this.#step) {
      case "name":
        return this.#readName(cursor, deltas);
      case "between":
        return this.#readBetween(cursor, deltas);
      case "key":
        return this.#readKey(cursor, deltas);
      case "padding":
        return this.#skipPadding(cursor);
      case "text":
        return this.#readText(cursor, deltas);
      default:
        return this.#readValue(cursor, deltas);
    }
  }

  /** A call without arguments may end where its name does. */
  #readName(cursor: TextCursor, deltas: OutputDelta[]): ReadState | "next" {
    const { nameEnd, parameterOpen, close } = this.#form;
    const marks = [nameEnd, parameterOpen, close].map((mark) => cursor.rest.indexOf(mark)).filter((at) => at >= 0);
    if (marks.length === 0) return cursor.isEnded || cursor.rest.length > MAX_NAME_CHARS ? "failed" : "more";
    const name = cursor.take(Math.min(...marks)).trim();
    if (name === "" || /[\s<>]/.test(name)) return "failed";
    cursor.skip(nameEnd);
    this.#tool = name;
    this.#sink.start(name, deltas);
    this.#step = "between";
    return "next";
  }

  #readBetween(cursor: TextCursor, deltas: OutputDelta[]): ReadState | "next" {
    if (cursor.skipSpace() === "more") return "more";
    const opens = cursor.skip(this.#form.parameterOpen);
    if (opens === "yes") this.#step = "key";
    if (opens !== "no") return opens === "yes" ? "next" : "more";
    const closes = this.#skipMarks(cursor, this.#form.close);
    if (closes === "more") return "more";
    this.#sink.addArguments(this.#numParameters === 0 ? "{}" : "}", deltas);
    this.#sink.end(deltas);
    return "done";
  }

  /** The parts of a mark may have any white space between them. */
  #skipMarks(cursor: TextCursor, mark: string): Match {
    for (const part of mark.split("\n")) {
      if (cursor.skipSpace() === "more") return "more";
      if (cursor.skip(part) === "more") return "more";
    }
    return "yes";
  }

  #readKey(cursor: TextCursor, deltas: OutputDelta[]): ReadState | "next" {
    const [first = "", second] = this.#form.parameterMiddle.split("\n");
    const end = cursor.rest.indexOf(first);
    const from = end + first.length;
    const valueAt = second === undefined ? from : cursor.rest.indexOf(second, Math.max(from, 0));
    if (end < 0 || valueAt < 0) return cursor.isEnded ? "failed" : "more";
    const key = cursor.rest.slice(0, end).trim();
    cursor.take(second === undefined ? from : valueAt + second.length);
    this.#sink.addArguments(`${this.#numParameters === 0 ? "{" : ", "}${JSON.stringify(key)}: `, deltas);
    this.#numParameters += 1;
    const isText = isTextSchema(this.#sink.schemaOf(this.#tool, key));
    this.#step = isText ? "padding" : "value";
    if (isText) this.#sink.addArguments('"', deltas);
    return "next";
  }

  #skipPadding(cursor: TextCursor): ReadState | "next" {
    if (this.#form.padding !== "" && cursor.skip(this.#form.padding) === "more") return "more";
    this.#step = "text";
    return "next";
  }

  #readText(cursor: TextCursor, deltas: OutputDelta[]): ReadState | "next" {
    const { padding, parameterClose } = this.#form;
    const whole = cursor.takeUntil(parameterClose);
    if (whole !== undefined) {
      const text = padding !== "" && whole.endsWith(padding) ? whole.slice(0, -padding.length) : whole;
      this.#sink.addArguments(`${escaped(text)}"`, deltas);
      this.#step = "between";
      return "next";
    }
    const numSafe = cursor.numSafe([padding + parameterClose, parameterClose]);
    this.#sink.addArguments(escaped(cursor.take(numSafe)), deltas);
    return cursor.isEnded ? "failed" : "more";
  }

  #readValue(cursor: TextCursor, deltas: OutputDelta[]): ReadState | "next" {
    const text = cursor.takeUntil(this.#form.parameterClose);
    if (text === undefined) return cursor.isEnded ? "failed" : "more";
    this.#sink.addArguments(jsonOf(text.trim()), deltas);
    this.#step = "between";
    return "next";
  }
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** The value as it was written when it is JSON, but for control characters in strings; else as text. */
function jsonOf(text: string): string {
  const cursor = new TextCursor();
  cursor.append(text);
  const json = new JsonValueScanner().take(cursor) + cursor.takeAll();
  try {
    JSON.parse(json);
    return json;
  } catch {
    return JSON.stringify(text);
  }
}

export function isTextSchema(schema: unknown): boolean {
  return typeof schema === "object" && schema !== null && "type" in schema && schema.type === "string";
}
