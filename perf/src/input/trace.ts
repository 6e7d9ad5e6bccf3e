/**
 * Traces of language-model traffic: Mooncake's JSON lines (https://github.com/kvcache-ai/Mooncake, FAST'25 trace), lines with
 * prompts, and ShareGPT's JSON.
 */
import { readFileSync } from "node:fs";
import { fileError, ToolError } from "@nereid/server/files/tool-error";

/** One request of a trace. Its prompt is a text, or blocks of tokens that stand for one. */
export interface TraceEntry {
  /** From the start of the trace; undefined: the trace has no times. */
  readonly atMs: number | undefined;
  readonly prompt: string | undefined;
  readonly inputTokens: number | undefined;
  /** Undefined: as the flags say. */
  readonly outputTokens: number | undefined;
  /** Equal ids are equal blocks of the prompt, so that prefixes repeat as they did. */
  readonly blockIds: readonly number[];
}

/** Tokens of a block in Mooncake's traces. */
export const TRACE_BLOCK_TOKENS = 512;

/** @throws ToolError with file and line */
export function readTrace(path: string): readonly TraceEntry[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw fileError("read", path, error);
  }
  const entries = text.trimStart().startsWith("[") ? shareGpt(parse(text, path, undefined), path) : lines(text, path);
  if (entries.length === 0) throw new ToolError(`${path}: expected at least one request`);
  return entries;
}

function parse(text: string, file: string, line: number | undefined): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    throw new ToolError(message, { at: { file, ...(line !== undefined && { line }) }, cause });
  }
}

function lines(text: string, file: string): TraceEntry[] {
  return text.split("\n").flatMap((line, index) => {
    if (line.trim() === "") return [];
    const entry = entryOf(parse(line, file, index + 1));
    if (entry === undefined) {
      const expected = "a line with input_length, or with text_input, prompt, text or messages";
      throw new ToolError(`expected ${expected}, got ${line.slice(0, 100)}`, { at: { file, line: index + 1 } });
    }
    return [entry];
  });
}

function entryOf(value: unknown): TraceEntry | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const record = value as Readonly<Record<string, unknown>>;
  const prompt = [record.text_input, record.prompt, record.text, lastMessage(record.messages)].find(
    (each) => typeof each === "string",
  ) as string | undefined;
  const inputTokens = numberOf(record.input_length);
  if (prompt === undefined && inputTokens === undefined) return undefined;
  const { hash_ids: ids } = record;
  return {
    atMs: numberOf(record.timestamp),
    prompt,
    inputTokens,
    outputTokens: numberOf(record.output_length) ?? numberOf(record.max_tokens),
    blockIds: Array.isArray(ids) ? ids.map(Number) : [],
  };
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function lastMessage(messages: unknown): unknown {
  if (!Array.isArray(messages)) return undefined;
  return (messages.at(-1) as { readonly content?: unknown } | undefined)?.content;
}

/** The first message of each conversation. */
function shareGpt(value: unknown, path: string): TraceEntry[] {
  if (!Array.isArray(value)) throw new ToolError(`${path}: expected a list of conversations`);
  return value.flatMap((each: unknown) => {
    const { conversations } = (each ?? {}) as { readonly conversations?: readonly { readonly value?: unknown }[] };
    const prompt = conversations?.[0]?.value;
    if (typeof prompt !== "string" || prompt === "") return [];
    return [{ atMs: undefined, prompt, inputTokens: undefined, outputTokens: undefined, blockIds: [] }];
  });
}
