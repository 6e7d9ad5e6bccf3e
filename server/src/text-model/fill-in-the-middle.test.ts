import assert from "node:assert/strict";
import { test } from "node:test";
import { gapPrompt } from "./fill-in-the-middle.ts";

const CASES: readonly (readonly [tokens: readonly string[], prompt: string | undefined])[] = [
  [["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"], "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>"],
  [["[PREFIX]", "[SUFFIX]"], "[SUFFIX]b[PREFIX]a"],
  [["<|fim_prefix|>", "<|fim_suffix|>"], undefined],
  [[], undefined],
];

for (const [tokens, prompt] of CASES) {
  test(`a tokenizer with ${tokens.join(" ") || "no such tokens"} gives ${prompt}`, () => {
    const idOf = (token: string): number | undefined => (tokens.includes(token) ? tokens.indexOf(token) : undefined);
    assert.equal(gapPrompt({ idOf }, "a", "b"), prompt);
  });
}
