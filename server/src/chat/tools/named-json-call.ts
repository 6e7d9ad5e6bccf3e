/** Reads `f middle {...}`: a name, a mark, and the arguments, which are passed on as they arrive. */
import type { OutputDelta } from "../chat-contract.ts";
import type { CallReader, CallSink, ReadState } from "./call-reader.ts";
import { skipClose } from "./json-call.ts";
import { JsonValueScanner } from "./json-value-scanner.ts";
import type { TextCursor } from "./text-cursor.ts";
import type { NamedJsonForm } from "./tool-row.ts";

/** With prefix and suffix; a longer text is no name. */
const MAX_HEAD_CHARS = 512;

export class NamedJsonReader implements CallReader {
  readonly #form: NamedJsonForm;
  readonly #sink: CallSink;
  readonly #scanner = new JsonValueScanner();
  #step: "name" | "gap" | "arguments" | "close" = "name";

  constructor(form: NamedJsonForm, sink: CallSink) {
    this.#form = form;
    this.#sink = sink;
  }

  read(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    if (this.#step === "name") {
      const state = this.#readName(cursor, deltas);
      if (state !== "done") return state;
    }
    if (this.#step === "gap") {
      if (cursor.skipSpace() === "more") return "more";
      this.#step = "arguments";
    }
    if (this.#step === "arguments") {
      this.#sink.addArguments(this.#scanner.take(cursor), deltas);
      if (!this.#scanner.isDone) return cursor.isEnded ? "failed" : "more";
      this.#sink.end(deltas);
      this.#step = "close";
    }
    return skipClose(cursor, this.#form.close);
  }

  #readName(cursor: TextCursor, deltas: OutputDelta[]): ReadState {
    const head = cursor.takeUntil(this.#form.middle.trim());
    if (head === undefined) return cursor.isEnded || cursor.rest.length > MAX_HEAD_CHARS ? "failed" : "more";
    const name = this.#nameIn(head);
    if (name === "") return "failed";
    this.#sink.start(name, deltas);
    this.#step = "gap";
    return "done";
  }

  /** Without the prefix, the index of the call, and marks behind it. */
  #nameIn(head: string): string {
    const { namePrefix, nameSuffix } = this.#form;
    const trimmed = head.trim();
    const [name = ""] =
      /^[^\s<[]+/.exec(trimmed.startsWith(namePrefix) ? trimmed.slice(namePrefix.length) : trimmed) ?? [];
    return nameSuffix.startsWith(":") ? name.replace(/:\d+$/, "") : name;
  }
}
