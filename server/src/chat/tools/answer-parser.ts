/** Separates calls from text in one answer that arrives in pieces. Text that may begin a mark is held back until it is decided. */
import type { ChatTool, OutputDelta, OutputParser } from "../chat-contract.ts";
import { newCallId } from "./call-id.ts";
import { type CallReader, CallSink } from "./call-reader.ts";
import { JsonListReader, JsonObjectReader } from "./json-call.ts";
import { NamedJsonReader } from "./named-json-call.ts";
import { ParametersReader } from "./parameters-call.ts";
import { PythonicReader } from "./pythonic-call.ts";
import { TextCursor } from "./text-cursor.ts";
import type { CallForm, ToolRow } from "./tool-row.ts";

function readerFor(form: CallForm, sink: CallSink): CallReader {
  switch (form.kind) {
    case "json-object":
      return new JsonObjectReader(form, sink);
    case "json-list":
      return new JsonListReader(form, sink);
    case "named-json":
      return new NamedJsonReader(form, sink);
    case "parameters":
      return new ParametersReader(form, sink);
    case "pythonic":
      return new PythonicReader(form, sink);
  }
}

/** Some models put a mark before a call that has none of its own. */
const LEADING_MARKS = ["<|python_tag|>", "<|python_start|>"];
/** Between calls that follow each other without marks. */
const SEPARATORS = /^[\s;,]+/;

export class AnswerParser implements OutputParser {
  readonly #row: ToolRow;
  readonly #sink: CallSink;
  readonly #opens: readonly string[];
  #cursor = new TextCursor();
  #reader: CallReader | undefined;
  /** Since the open call began: becomes text again when it is no call. */
  #callText = "";
  #openedBy = "";
  /** Calls before the open one. */
  #numCallsBefore = 0;
  /** Nothing but white space and calls so far: a call without a mark may begin. */
  #isAtStart = true;
  /** Calls, or marks around them: white space beside them is no text. */
  #hasMarks = false;
  /** White space that is text only when text follows. */
  #heldSpace = "";

  constructor(row: ToolRow, tools: readonly ChatTool[]) {
    this.#row = row;
    this.#sink = new CallSink(tools, () => newCallId(row.idLength));
    const { open } = row.form;
    const marks = row.section === undefined ? [open] : [row.section.open, row.section.close, open];
    this.#opens = marks.map((mark) => mark.trim()).filter((mark) => mark !== "");
  }

  push(text: string): readonly OutputDelta[] {
    this.#append(text);
    return this.#advance();
  }

  end(): readonly OutputDelta[] {
    this.#cursor.end();
    const deltas = [...this.#advance()];
    this.#sink.end(deltas);
    return deltas;
  }

  #append(text: string): void {
    this.#cursor.append(text);
    if (this.#reader !== undefined) this.#callText += text;
  }

  #advance(): readonly OutputDelta[] {
    const deltas: OutputDelta[] = [];
    while (this.#reader === undefined ? this.#readText(deltas) : this.#readCall(this.#reader, deltas)) {
      // One part of the answer a turn.
    }
    return deltas;
  }

  /** False: more text is needed. */
  #readText(deltas: OutputDelta[]): boolean {
    if (this.#row.form.open === "" && this.#isAtStart) return this.#readStart();
    const { rest } = this.#cursor;
    const found = this.#opens
      .map((mark) => ({ mark, at: rest.indexOf(mark) }))
      .filter(({ at }) => at >= 0)
      .sort((a, b) => a.at - b.at || b.mark.length - a.mark.length)[0];
    if (found === undefined) {
      this.#emit(this.#cursor.take(this.#cursor.numSafe(this.#opens)), deltas);
      return false;
    }
    this.#emit(this.#cursor.take(found.at), deltas);
    this.#cursor.take(found.mark.length);
    this.#heldSpace = "";
    if (found.mark !== this.#row.form.open.trim()) this.#hasMarks = true;
    if (found.mark === this.#row.form.open.trim()) this.#open(found.mark);
    return true;
  }

  /** A form without a mark of its own: the first character decides. */
  #readStart(): boolean {
    const space = SEPARATORS.exec(this.#cursor.rest)?.[0] ?? "";
    this.#heldSpace += this.#cursor.take(space.length);
    for (const mark of LEADING_MARKS) {
      const match = this.#cursor.skip(mark);
      if (match === "more" && !this.#cursor.isEmpty) return false;
      if (match === "yes") return true;
    }
    if (this.#cursor.isEmpty) return false;
    const first = this.#row.form.kind === "pythonic" ? "[" : "{";
    if (this.#cursor.rest.startsWith(first)) this.#open(this.#heldSpace);
    else this.#isAtStart = false;
    return true;
  }

  #open(openedBy: string): void {
    this.#openedBy = openedBy;
    this.#numCallsBefore = this.#sink.numCalls;
    this.#callText = this.#cursor.rest;
    this.#reader = readerFor(this.#row.form, this.#sink);
  }

  #readCall(reader: CallReader, deltas: OutputDelta[]): boolean {
    const state = reader.read(this.#cursor, deltas);
    if (state === "more") return false;
    this.#reader = undefined;
    if (state === "done") {
      this.#heldSpace = "";
      this.#hasMarks = true;
    } else this.#giveUp(deltas);
    return true;
  }

  /** Pieces that are no call become text; a call that breaks off ends. */
  #giveUp(deltas: OutputDelta[]): void {
    this.#isAtStart = false;
    this.#sink.end(deltas);
    if (this.#sink.numCalls > this.#numCallsBefore) return;
    const isEnded = this.#cursor.isEnded;
    this.#cursor = new TextCursor();
    this.#cursor.append(this.#callText);
    if (isEnded) this.#cursor.end();
    this.#emit(this.#openedBy, deltas);
  }

  #emit(text: string, deltas: OutputDelta[]): void {
    const all = this.#heldSpace + text;
    const kept = this.#hasMarks && all.trim() === "" ? "" : all.trimEnd();
    this.#heldSpace = all.slice(kept.length);
    if (this.#cursor.isEnded && this.#cursor.isEmpty && !this.#hasMarks) {
      this.#heldSpace = "";
      if (all !== "") deltas.push({ type: "text", text: all });
    } else if (kept !== "") deltas.push({ type: "text", text: kept });
  }
}
