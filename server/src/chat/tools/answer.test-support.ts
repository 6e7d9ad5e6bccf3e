/** For tests of formats: an answer in any form of the table, and the deltas of a parser put together again. */
import type { OutputDelta, OutputParser } from "../chat-contract.ts";
import type { CallForm, ToolRow } from "./tool-row.ts";

export interface Call {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface Parsed {
  readonly text: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly name: string; readonly arguments: unknown }[];
}

/** The text of calls as a model of this format writes them. */
export function written(row: ToolRow, calls: readonly Call[]): string {
  const body = writtenCalls(row.form, calls);
  return row.section === undefined ? body : row.section.open + body + row.section.close;
}

function writtenCalls(form: CallForm, calls: readonly Call[]): string {
  switch (form.kind) {
    case "json-object":
      return calls.map((call) => form.open + form.gap + objectText(form, call) + form.gap + form.close).join("\n");
    case "json-list":
      return `${form.open}[${calls.map((call) => objectText(form, call)).join(", ")}]${form.close}`;
    case "named-json":
      return calls
        .map(({ name, arguments: args }, i) => {
          const head = form.open + form.namePrefix + name + form.nameSuffix.replace("#", String(i));
          return head + form.middle + JSON.stringify(args) + form.close;
        })
        .join("");
    case "parameters":
      return calls.map((call) => parametersText(form, call)).join("\n");
    case "pythonic":
      return `${form.open}[${calls.map(pythonText).join(", ")}]${form.close}`;
  }
}

function objectText(keys: { readonly nameKey: string; readonly argumentsKey: string }, call: Call): string {
  return `{"${keys.nameKey}": ${JSON.stringify(call.name)}, "${keys.argumentsKey}": ${JSON.stringify(call.arguments)}}`;
}

function parametersText(form: Extract<CallForm, { readonly kind: "parameters" }>, call: Call): string {
  const { open, nameEnd, parameterOpen, parameterMiddle, parameterClose, padding, gap, close } = form;
  const parameters = Object.entries(call.arguments).map(([key, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    return parameterOpen + key + parameterMiddle + padding + text + padding + parameterClose + gap;
  });
  return open + call.name + nameEnd + (nameEnd === gap ? "" : gap) + parameters.join("") + close;
}

function pythonText({ name, arguments: args }: Call): string {
  return `${name}(${Object.entries(args)
    .map(([key, value]) => `${key}=${pythonValue(value)}`)
    .join(", ")})`;
}

function pythonValue(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (typeof value === "object") {
    return `{${Object.entries(value)
      .map(([key, item]) => `'${key}': ${pythonValue(item)}`)
      .join(", ")}}`;
  }
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/** Feeds an answer in pieces. @throws Error when deltas are out of order, or arguments are no JSON */
export function parsePieces(parser: OutputParser, pieces: readonly string[]): Parsed {
  const deltas = [...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()];
  return joined(deltas);
}

export function joined(deltas: readonly OutputDelta[]): Parsed {
  let text = "";
  let reasoning = "";
  const calls: { name: string; json: string; isOpen: boolean }[] = [];
  for (const delta of deltas) {
    if ("index" in delta) addToCalls(calls, delta);
    else if (delta.type === "text") text += delta.text;
    else reasoning += delta.text;
  }
  const parsed = calls.map(({ name, json, isOpen }) => {
    if (isOpen) throw new Error(`the call of ${name} has no end`);
    return { name, arguments: JSON.parse(json) };
  });
  return { text, reasoning, calls: parsed };
}

type CallDelta = Extract<OutputDelta, { readonly index: number }>;

function addToCalls(calls: { name: string; json: string; isOpen: boolean }[], delta: CallDelta): void {
  if (delta.type === "tool-call-start") {
    if (delta.index !== calls.length) throw new Error(`call ${delta.index} begins behind ${calls.length}`);
    calls.push({ name: delta.name, json: "", isOpen: true });
    return;
  }
  const call = calls[delta.index];
  if (call?.isOpen !== true) throw new Error(`a delta of call ${delta.index}, which is not open`);
  if (delta.type === "tool-call-end") call.isOpen = false;
  else call.json += delta.text;
}

/** Cuts a text at random places; `random` returns numbers below 1. */
export function pieces(text: string, random: () => number, meanLength: number): readonly string[] {
  const parts: string[] = [];
  let at = 0;
  while (at < text.length) {
    const length = 1 + Math.floor(random() * 2 * meanLength);
    parts.push(text.slice(at, at + length));
    at += length;
  }
  return parts;
}

/** A seeded generator (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
