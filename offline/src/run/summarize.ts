/** Summarizes texts with an engine, and scores the result against reference summaries (ROUGE). */
import { readFile } from "node:fs/promises";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import { ROUGE_KINDS, type RougeKind, rouge } from "./rouge.ts";
import type { Sampling } from "./run-prompts.ts";
import { cutPrompt, runPrompts } from "./run-prompts.ts";
import type { TextEngine } from "./text-engine.ts";

export interface SummaryItem {
  readonly text: string;
  readonly summary: string;
}

export interface SummaryReport {
  readonly numTexts: number;
  readonly numTokens: number;
  readonly seconds: number;
  /** Mean F-measures of the first beam, in per cent. */
  readonly scores: Readonly<Record<RougeKind, number>>;
  readonly first: { readonly item: SummaryItem; readonly output: string } | undefined;
}

const TEXT_FIELDS: readonly string[] = ["article", "text", "document", "dialogue", "prompt"];
const SUMMARY_FIELDS: readonly string[] = ["highlights", "summary", "reference", "canonical_solution"];
/** Suffix of a text that makes models continue with a summary. */
const CUE = " TL;DR: ";

/** JSON lines with a text and its summary. @throws ToolError naming file and line */
export async function readSummaries(path: string, maxItems: number): Promise<readonly SummaryItem[]> {
  const content = await readFile(path, "utf8").catch((error: unknown) => {
    throw fileError("read", path, error);
  });
  const items: SummaryItem[] = [];
  for (const [i, line] of content.split("\n").entries()) {
    if (items.length === maxItems) break;
    if (line.trim() !== "") items.push(parseItem(line, path, i + 1));
  }
  if (items.length === 0) throw new ToolError(`${path} holds no lines`);
  return items;
}

function parseItem(line: string, file: string, number: number): SummaryItem {
  let fields: ReadonlyMap<string, unknown>;
  try {
    fields = new Map(Object.entries((JSON.parse(line) as Record<string, unknown> | null) ?? {}));
  } catch (cause) {
    throw new ToolError("Expected a JSON object on each line", { at: { file, line: number }, cause });
  }
  const find = (names: readonly string[]): string => {
    const found = names.map((name) => fields.get(name)).find((value) => typeof value === "string");
    if (typeof found === "string") return found;
    throw new ToolError(`Expected a field named ${names.join(", ")}`, { at: { file, line: number } });
  };
  return { text: find(TEXT_FIELDS), summary: find(SUMMARY_FIELDS) };
}

/** The prompt of the original: the text, without artefacts of news tokenizers, and the suffix. */
export function summaryPrompt(text: string): string {
  return `${text}${CUE}`.trim().replaceAll(" n't", "n't");
}

export async function summarize(
  engine: TextEngine,
  items: readonly SummaryItem[],
  sampling: Sampling,
  options: { readonly batchSize: number; readonly maxInputLength: number; readonly onItem: (count: number) => void },
): Promise<SummaryReport> {
  const sums = new Map<RougeKind, number>(ROUGE_KINDS.map((kind) => [kind, 0]));
  let [numTokens, milliseconds] = [0, 0];
  let first: SummaryReport["first"];
  for (let start = 0; start < items.length; start += options.batchSize) {
    const batch = items.slice(start, start + options.batchSize);
    const prompts = batch.map(({ text }) => {
      const prompt = summaryPrompt(text);
      return cutPrompt({ text: prompt, ids: engine.encode(prompt) }, options.maxInputLength);
    });
    const startMs = performance.now();
    const request = { ...sampling, stopWords: [], badWords: [] };
    const results = await runPrompts(engine, prompts, request, options.batchSize);
    milliseconds += performance.now() - startMs;
    for (const [i, item] of batch.entries()) {
      const output = results[i]?.beams[0]?.text ?? "";
      first ??= { item, output };
      numTokens += results[i]?.numTokens ?? 0;
      const scores = rouge(item.summary, output);
      for (const kind of ROUGE_KINDS) sums.set(kind, (sums.get(kind) ?? 0) + scores[kind].fmeasure);
    }
    options.onItem(batch.length);
  }
  const scores = Object.fromEntries([...sums].map(([kind, sum]) => [kind, (100 * sum) / items.length]));
  return {
    numTexts: items.length,
    numTokens,
    seconds: milliseconds / 1000,
    scores: scores as SummaryReport["scores"],
    first,
  };
}
