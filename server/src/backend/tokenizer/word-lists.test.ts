import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_LLM_WORD_BYTES, MAX_LLM_WORD_TOKENS, MAX_LLM_WORDS } from "../../core/limits.ts";
import { ServerError } from "../../core/server-error.ts";
import { wordLists } from "./word-lists.ts";

/** One id per character. */
const encode = (word: string): Int32Array => Int32Array.from(word, (char) => char.charCodeAt(0) - 96);

const TABLE: readonly (readonly [
  name: string,
  rows: readonly (readonly string[])[],
  width: number,
  values: readonly number[],
])[] = [
  ["no rows", [], 0, []],
  ["no words", [[]], 0, []],
  ["empty words", [["", ""], [""]], 0, []],
  ["one word", [["ab"]], 2, [1, 2, 2, -1]],
  ["two words", [["ab", "c"]], 3, [1, 2, 3, 2, 3, -1]],
  ["an empty word between", [["a", "", "b"]], 2, [1, 2, 1, 2]],
  ["rows of different length", [["a"], ["bcd", "a"]], 4, [1, 0, 0, 0, 1, -1, -1, -1, 2, 3, 4, 1, 3, 4, -1, -1]],
];

for (const [name, rows, width, values] of TABLE) {
  test(`\`wordLists()\` lays out ${name}`, () => {
    const lists = wordLists("STOP_WORDS_DICT", rows, encode);
    assert.deepEqual([lists.width, [...lists.values]], [width, values]);
  });
}

const LIMITS: readonly (readonly [name: string, most: number, words: (count: number) => readonly string[]])[] = [
  ["words", MAX_LLM_WORDS, (count) => new Array<string>(count).fill("a")],
  ["tokens", MAX_LLM_WORD_TOKENS, (count) => ["a".repeat(count)]],
  ["bytes", MAX_LLM_WORD_BYTES, (count) => [`${"é".repeat(count / 2)}${"a".repeat(count % 2)}`]],
];

for (const [name, most, words] of LIMITS) {
  test(`\`wordLists()\` takes ${most} ${name} and refuses one more`, () => {
    const few = (word: string): Int32Array => encode(name === "bytes" ? "a" : word);
    assert.ok(wordLists("BAD_WORDS_DICT", [words(most)], few).width > 0);
    assert.throws(
      () => wordLists("BAD_WORDS_DICT", [words(most + 1)], few),
      (error) => error instanceof ServerError && error.message.includes(`${name} in one row, expected at most ${most}`),
    );
  });
}
