/**
 * Stop and bad words in TensorRT-LLM's layout. Each row has two lines: the concatenated ids of all words, and the
 * running end of each word, padded with -1. Pure.
 */
import { MAX_LLM_WORD_BYTES, MAX_LLM_WORD_TOKENS, MAX_LLM_WORDS } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";

export interface WordLists {
  /** Length of both lines, the same in every row. */
  readonly width: number;
  /** Rows x 2 x width. */
  readonly values: Int32Array<ArrayBuffer>;
}

export type EncodeWord = (word: string) => Int32Array;

/** Empty words mean none. @throws ServerError when there is more than the engine takes */
export function wordLists(name: string, rows: readonly (readonly string[])[], encode: EncodeWord): WordLists {
  const encoded = rows.map((words) => encodeRow(name, words, encode));
  const width = encoded.reduce((most, { ids, ends }) => Math.max(most, ids.length, ends.length), 0);
  const values = new Int32Array(rows.length * 2 * width);
  encoded.forEach(({ ids, ends }, row) => {
    const at = row * 2 * width;
    values.set(ids, at);
    values.fill(-1, at + width, at + 2 * width);
    values.set(ends, at + width);
  });
  return { width, values };
}

function encodeRow(name: string, words: readonly string[], encode: EncodeWord): { ids: number[]; ends: number[] } {
  const ids: number[] = [];
  const ends: number[] = [];
  const given = words.filter((word) => word !== "");
  expectAtMost(name, "words", given.length, MAX_LLM_WORDS);
  const numBytes = given.reduce((sum, word) => sum + Buffer.byteLength(word), 0);
  expectAtMost(name, "bytes", numBytes, MAX_LLM_WORD_BYTES);
  for (const word of given) {
    const wordIds = encode(word);
    if (wordIds.length === 0) continue;
    expectAtMost(name, "tokens", ids.length + wordIds.length, MAX_LLM_WORD_TOKENS);
    for (const id of wordIds) ids.push(id);
    ends.push(ids.length);
  }
  return { ids, ends };
}

function expectAtMost(name: string, what: string, got: number, most: number): void {
  if (got <= most) return;
  throw invalidArgument(`input '${name}' has ${got} ${what} in one row, expected at most ${most}`);
}
