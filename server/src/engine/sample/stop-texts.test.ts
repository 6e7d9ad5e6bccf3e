import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import { StopTexts } from "./stop-texts.ts";

const MODEL = fileURLToPath(new URL("../../../../examples/nereid-tiny/language_model", import.meta.url));

test("push() is true when the text, however it is cut into tokens, completes a word", async () => {
  const tokenizer = await loadTokenizer(MODEL);
  const encode = (text: string): Int32Array => tokenizer.encode(text, { addSpecialTokens: false });
  const letters = (text: string): number[] => [...text].flatMap((letter) => [...encode(letter)]);
  const cases: [string[], number[], number][] = [
    [["the end"], letters("and the end."), 11],
    [["the end"], [...encode("and the end.")], -2],
    [["nothing", "é!"], letters("caf\u00e9! and"), -2],
    [["xyz"], letters("xy xz yz"), -1],
    [["aab"], letters("aaab"), 4],
  ];
  for (const [words, ids, expected] of cases) {
    const texts = StopTexts.tryCreate(tokenizer, words.map(encode));
    const at = ids.findIndex((id) => texts?.push(id)) + 1;
    const found = tokenizer.decode(ids.slice(0, at), { skipSpecialTokens: true });
    const isHit = words.some((word) => found.includes(word));
    assert.equal(isHit, expected !== -1, `${words} in ${found}`);
    if (expected > 0) assert.equal(at, expected);
  }
});

test("tryCreate() leaves special tokens and parts of characters to their ids", async () => {
  const tokenizer = await loadTokenizer(MODEL);
  const part = tokenizer.encode("☃", { addSpecialTokens: false }).slice(0, 1);
  assert.equal(StopTexts.tryCreate(tokenizer, [Int32Array.of(2), Int32Array.of(99_999), part]), undefined);
});
