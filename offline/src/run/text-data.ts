/** Texts for calibration and measurement: from a file, JSON lines, or built in; split into pieces of tokens. */
import { readFile, stat } from "node:fs/promises";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import { BUILT_IN_TEXT } from "./built-in-text.ts";

export interface TokenizerLike {
  readonly bosId: number | undefined;
  encode(text: string, options: { readonly addSpecialTokens: boolean }): Int32Array;
}

export const BUILT_IN = "built-in";

const MAX_FILE_BYTES: number = 512 << 20;
/** Fields of a line that may hold its text; the first present one counts. */
const TEXT_FIELDS: readonly string[] = ["text", "article", "content", "prompt", "input"];

/** @throws ToolError naming file and line */
export async function readTexts(source: string): Promise<readonly string[]> {
  if (source === BUILT_IN) return BUILT_IN_TEXT;
  const { size } = await stat(source).catch((error: unknown) => {
    throw fileError("read", source, error);
  });
  if (size > MAX_FILE_BYTES) throw new ToolError(`${source} has ${size} bytes, expected at most ${MAX_FILE_BYTES}`);
  const content = await readFile(source, "utf8");
  if (!/\.(jsonl|json|ndjson)$/.test(source)) return [content];
  return content.split("\n").flatMap((line, i) => (line.trim() === "" ? [] : [textOf(line, source, i + 1)]));
}

function textOf(line: string, file: string, number: number): string {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (cause) {
    throw new ToolError("Expected a JSON object on each line", { at: { file, line: number }, cause });
  }
  const fields = new Map(Object.entries((value as Record<string, unknown> | null) ?? {}));
  const text = TEXT_FIELDS.map((name) => fields.get(name)).find((found) => typeof found === "string");
  if (typeof text === "string") return text;
  throw new ToolError(`Expected a field named ${TEXT_FIELDS.join(", ")}`, { at: { file, line: number } });
}

/** Pieces of at most `maxTokens`, each after the start token if there is one; short remainders are dropped. */
export function tokenPieces(
  texts: readonly string[],
  tokenizer: TokenizerLike,
  { maxTokens, maxPieces }: { readonly maxTokens: number; readonly maxPieces: number },
): readonly Int32Array[] {
  const start = tokenizer.bosId === undefined ? [] : [tokenizer.bosId];
  const room = maxTokens - start.length;
  const pieces: Int32Array[] = [];
  for (const text of texts) {
    const ids = tokenizer.encode(text, { addSpecialTokens: false });
    for (let from = 0; from < ids.length && pieces.length < maxPieces; from += room) {
      const part = ids.subarray(from, from + room);
      if (part.length > 1) pieces.push(Int32Array.from([...start, ...part]));
    }
  }
  return pieces;
}
