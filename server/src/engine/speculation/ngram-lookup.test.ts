import assert from "node:assert/strict";
import { test } from "node:test";
import { draftByNgram } from "./ngram-lookup.ts";

const CASES: readonly (readonly [name: string, tokens: number[], count: number, expected: number[]])[] = [
  ["what followed the last tokens before", [1, 2, 3, 4, 9, 1, 2, 3], 2, [4, 9]],
  ["nothing when only the last token stood before", [1, 2, 3, 1, 4, 1], 3, []],
  ["by the longest match, though it is older", [7, 1, 2, 8, 5, 1, 2, 6, 7, 1, 2], 1, [8]],
  ["by the newest of matches of the same length", [1, 2, 8, 5, 1, 2, 6, 9, 1, 2], 1, [6]],
  ["on from drafts when the match reaches the end", [1, 2, 1, 2], 5, [1, 2, 1, 2, 1]],
  ["no id that stands for a row of a table", [1, 2, 3, 100, 4, 1, 2], 3, [3]],
  ["nothing after too few tokens", [1], 3, []],
];

for (const [name, tokens, count, expected] of CASES) {
  test(`draftByNgram() drafts ${name}`, () => {
    const array = new Int32Array(tokens.length + count);
    array.set(tokens);
    const numDrafts = draftByNgram(array, tokens.length, count, { ngramSize: 3, vocabSize: 100 });
    assert.deepEqual([...array.subarray(tokens.length, tokens.length + numDrafts)], expected);
    assert.deepEqual([...array.subarray(0, tokens.length)], tokens);
  });
}
