/** Generates replies to prompts, a batch at a time. It knows no command line. */
import { readFile } from "node:fs/promises";
import type { GenerateRequest } from "@nereid/server/engine/request/generate";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import type { GeneratedText, TextEngine } from "./text-engine.ts";

export type Sampling = Partial<Omit<GenerateRequest, "promptTokens" | "stopWords" | "badWords">> &
  Pick<GenerateRequest, "maxTokens">;

export interface Prompt {
  /** Undefined for a prompt given as ids. */
  readonly text: string | undefined;
  readonly ids: Int32Array;
}

const MAX_FILE_BYTES: number = 256 << 20;

/** One prompt per line, or lines of comma-separated token ids for names ending in .csv. */
export async function readPrompts(path: string, encode: (text: string) => Int32Array): Promise<readonly Prompt[]> {
  const content = await readFile(path).catch((error: unknown) => {
    throw fileError("read", path, error);
  });
  if (content.byteLength > MAX_FILE_BYTES) throw new ToolError(`${path} is larger than ${MAX_FILE_BYTES} bytes`);
  const text = content.toString("utf8");
  if (!path.endsWith(".csv")) return [{ text, ids: encode(text) }];
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  return lines.map((line, i) => ({ text: undefined, ids: parseIds(line, path, i + 1) }));
}

/** The last `maxLength` tokens of a prompt, as the original truncates it. */
export function cutPrompt({ text, ids }: Prompt, maxLength: number): Prompt {
  return { text, ids: ids.length > maxLength ? ids.slice(ids.length - maxLength) : ids };
}

/** "a,b c" are the words "a" and "b c"; a comma within one is written "\,". */
export function wordList(texts: readonly string[], encode: (text: string) => Int32Array): readonly Int32Array[] {
  return texts.filter((text) => text !== "").map((text) => encode(text));
}

export async function runPrompts(
  engine: TextEngine,
  prompts: readonly Prompt[],
  sampling: Sampling & Pick<GenerateRequest, "stopWords" | "badWords">,
  batchSize: number,
): Promise<readonly GeneratedText[]> {
  const results: GeneratedText[] = [];
  for (let first = 0; first < prompts.length; first += batchSize) {
    const batch = prompts.slice(first, first + batchSize);
    const running = batch.map(({ ids }) => engine.generate({ ...sampling, promptTokens: ids }));
    results.push(...(await Promise.all(running)));
  }
  return results;
}

function parseIds(line: string, file: string, number: number): Int32Array {
  const ids = line.split(",").map((text) => Number(text.trim()));
  if (ids.every((id) => Number.isSafeInteger(id) && id >= 0)) return Int32Array.from(ids);
  throw new ToolError("Expected token ids separated by commas", { at: { file, line: number } });
}
