/** Reads `[f(a=1), g(b="x")]`. Each call is passed on when it is whole. */
import type { OutputDelta } from "../chat-contract.ts";
import type { CallReader, CallSink, ReadState } from "./call-reader.ts";
import { skipClose } from "./json-call.ts";
import { PythonLiteralError, PythonReader } from "./python-literal.ts";
import type { TextCursor } from "./text-cursor.ts";
import type { PythonicForm } from "./tool-row.ts";

interface PythonCall {
  readonly name: string;
  /** JSON. */
  readonly arguments: string;
}

export class PythonicReader implements CallReader {
  readonly #form: PythonicForm;
  readonly #sink: CallSink;
  #step: "open" | "call" | "between" | "close" = "open";

  constructor(form: PythonicForm, sink: CallSink) {
    this.#form = form;
    this.#sink = sink;
  }

  read(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    while (this.#step !== "close") {
      const state = this.#next(cursor, deltas);
      if (state !== "done") return state;
    }
    return skipClose(cursor, this.#form.close);
  }

  #next(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    if (cursor.skipSpace() === "more") return "more";
    switch (this.#step) {
      case "open":
        if (cursor.skip("[") !== "yes") return "failed";
        this.#step = "call";
        return "done";
      case "call":
        return this.#readCall(cursor, deltas);
      default:
        return this.#readBetween(cursor);
    }
  }

  #readBetween(cursor: TextCursor): ReadState {
    if (cursor.skip("]") === "yes") this.#step = "close";
    else if (cursor.skip(",") === "yes") this.#step = "call";
    else return "failed";
    return "done";
  }

  #readCall(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    const { rest } = cursor;
    if (!/^[A-Za-z_][\w.-]*(\s*\(|$)/.test(rest)) return "failed";
    const end = endOfCall(rest);
    if (end < 0) return cursor.isEnded ? "failed" : "more";
    const call = parseCall(rest.slice(0, end));
    if (call === undefined) return "failed";
    cursor.take(end);
    this.#sink.start(call.name, deltas);
    this.#sink.addArguments(call.arguments, deltas);
    this.#sink.end(deltas);
    this.#step = "between";
    return "done";
  }
}

/** Strings, whose parentheses do not count, and parentheses. */
const PART = /"(?:[^"\\]|\\[\s\S])*(?:"|$)|'(?:[^'\\]|\\[\s\S])*(?:'|$)|[()]/g;

/** Behind the parenthesis that closes the call; -1: it has not come. */
function endOfCall(text: string): number {
  let depth = 0;
  for (const { 0: part, index } of text.matchAll(PART)) {
    if (part === "(") depth += 1;
    if (part !== ")") continue;
    depth -= 1;
    if (depth === 0) return index + 1;
  }
  return -1;
}

function parseCall(text: string): PythonCall | undefined {
  try {
    const reader = new PythonReader(text);
    const name = reader.word();
    const members: string[] = [];
    reader.expect("(");
    while (!reader.skip(")")) {
      const key = reader.word();
      reader.expect("=");
      members.push(`${JSON.stringify(key)}: ${reader.json()}`);
      if (!reader.skip(",")) {
        reader.expect(")");
        break;
      }
    }
    return { name, arguments: `{${members.join(", ")}}` };
  } catch (error) {
    if (error instanceof PythonLiteralError) return undefined;
    throw error;
  }
}
