/** Reads `{"name": "f", "arguments": {...}}`, alone or in a list. Arguments are passed on as they arrive. */
import type { OutputDelta } from "../chat-contract.ts";
import type { CallReader, CallSink, ReadState } from "./call-reader.ts";
import { JsonValueScanner } from "./json-value-scanner.ts";
import type { TextCursor } from "./text-cursor.ts";
import type { JsonListForm, JsonObjectForm } from "./tool-row.ts";

type Keys = Pick<JsonObjectForm, "nameKey" | "argumentsKey">;
type Step = "open" | "key" | "colon" | "value" | "comma" | "closed";

/** Other names for the arguments: models mix the forms up when no grammar holds them. */
const ARGUMENT_KEYS = new Set(["arguments", "parameters", "input", "args"]);

class JsonCall {
  readonly #keys: Keys;
  readonly #sink: CallSink;
  #step: Step = "open";
  #key = "";
  #value = "";
  #scanner = new JsonValueScanner();
  #name: string | undefined;
  /** Arguments that came before the name. */
  #early = "";
  #hasArguments = false;

  constructor(keys: Keys, sink: CallSink) {
    this.#keys = keys;
    this.#sink = sink;
  }

  read(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    while (this.#step !== "closed") {
      const state = this.#next(cursor, deltas);
      if (state !== "done") return state;
    }
    if (this.#name === undefined) return "failed";
    if (!this.#hasArguments) this.#sink.addArguments("{}", deltas);
    this.#sink.end(deltas);
    return "done";
  }

  /** "done": one step further. */
  #next(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    if (this.#step !== "value" && cursor.skipSpace() === "more") return "more";
    switch (this.#step) {
      case "open":
        return this.#expect(cursor, "{", "key");
      case "key":
        return cursor.rest.startsWith("}") && this.#key === ""
          ? this.#expect(cursor, "}", "closed")
          : this.#readKey(cursor);
      case "colon":
        return this.#expect(cursor, ":", "value");
      case "value":
        return this.#readValue(cursor, deltas);
      default:
        return cursor.rest.startsWith("}") ? this.#expect(cursor, "}", "closed") : this.#expect(cursor, ",", "key");
    }
  }

  #expect(cursor: TextCursor, mark: string, next: Step): ReadState {
    const match = cursor.skip(mark);
    if (match === "yes") this.#step = next;
    return match === "yes" ? "done" : match === "no" ? "failed" : "more";
  }

  #readKey(cursor: TextCursor): ReadState {
    this.#value += this.#scanner.take(cursor);
    if (!this.#scanner.isDone) return cursor.isEnded ? "failed" : "more";
    const key = parsed(this.#value);
    if (typeof key !== "string") return "failed";
    this.#key = key;
    this.#beginValue();
    this.#step = "colon";
    return "done";
  }

  #beginValue(): void {
    this.#value = "";
    this.#scanner = new JsonValueScanner();
  }

  #readValue(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    if (this.#value === "" && cursor.skipSpace() === "more") return "more";
    const piece = this.#scanner.take(cursor);
    this.#value += piece;
    const isArguments = this.#key === this.#keys.argumentsKey || ARGUMENT_KEYS.has(this.#key);
    // Text that holds JSON is passed on when it is whole.
    if (isArguments && !this.#value.startsWith('"')) this.#addArguments(piece, deltas);
    if (!this.#scanner.isDone) return cursor.isEnded ? "failed" : "more";
    if (isArguments && this.#value.startsWith('"')) this.#addArguments(String(parsed(this.#value) ?? "{}"), deltas);
    if (this.#key === this.#keys.nameKey) this.#setName(parsed(this.#value), deltas);
    this.#beginValue();
    this.#step = "comma";
    return "done";
  }

  #addArguments(text: string, deltas: OutputDelta[]): void {
    this.#hasArguments = true;
    if (this.#name === undefined) this.#early += text;
    else this.#sink.addArguments(text, deltas);
  }

  #setName(name: unknown, deltas: OutputDelta[]): void {
    if (typeof name !== "string" || this.#name !== undefined) return;
    this.#name = name;
    this.#sink.start(name, deltas);
    this.#sink.addArguments(this.#early, deltas);
  }
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

export class JsonObjectReader implements CallReader {
  readonly #call: JsonCall;
  readonly #close: string;
  #isRead = false;

  constructor(form: JsonObjectForm, sink: CallSink) {
    this.#call = new JsonCall(form, sink);
    this.#close = form.close;
  }

  read(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    if (!this.#isRead) {
      const state = this.#call.read(cursor, deltas);
      if (state !== "done") return state;
      this.#isRead = true;
    }
    return skipClose(cursor, this.#close);
  }
}

/** The mark may be missing: the call is whole without it. */
export function skipClose(cursor: TextCursor, close: string): ReadState {
  if (close === "") return "done";
  if (cursor.skipSpace() === "more") return "more";
  return cursor.skip(close.trimStart()) === "more" ? "more" : "done";
}

export class JsonListReader implements CallReader {
  readonly #form: JsonListForm;
  readonly #sink: CallSink;
  #step: "open" | "call" | "comma" | "close" = "open";
  #call: JsonCall;

  constructor(form: JsonListForm, sink: CallSink) {
    this.#form = form;
    this.#sink = sink;
    this.#call = new JsonCall(form, sink);
  }

  read(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    while (this.#step !== "close") {
      const state = this.#next(cursor, deltas);
      if (state !== "done") return state;
    }
    return skipClose(cursor, this.#form.close);
  }

  #next(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    if (this.#step === "call") {
      const state = this.#call.read(cursor, deltas);
      if (state === "done") this.#step = "comma";
      return state;
    }
    if (cursor.skipSpace() === "more") return "more";
    if (this.#step === "open") return this.#move(cursor.skip("["), "call", "failed");
    if (cursor.rest.startsWith("]")) return this.#move(cursor.skip("]"), "close", "failed");
    this.#call = new JsonCall(this.#form, this.#sink);
    return this.#move(cursor.skip(","), "call", "failed");
  }

  #move(match: "yes" | "no" | "more", next: "call" | "close", otherwise: ReadState): ReadState {
    if (match === "yes") this.#step = next;
    return match === "yes" ? "done" : match === "more" ? "more" : otherwise;
  }
}
