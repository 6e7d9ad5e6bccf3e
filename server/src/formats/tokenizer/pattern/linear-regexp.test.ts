import assert from "node:assert/strict";
import { test } from "node:test";
import { GGUF_PRE_TOKENIZERS } from "../../gguf/pre-tokenizers.ts";
import { createTokenizer } from "../tokenizer.ts";
import { translatePattern } from "../tokenizer-library.ts";
import { isPlainPattern } from "./is-plain-pattern.ts";
import { boundedPattern, LinearRegExp } from "./linear-regexp.ts";

/** Patterns in a section of a tokenizer, as Oniguruma's. */
function patternsIn(section: unknown): readonly string[] {
  if (typeof section !== "object" || section === null) return [];
  const { Regex } = section as { readonly Regex?: unknown };
  return [...(typeof Regex === "string" ? [Regex] : []), ...Object.values(section).flatMap(patternsIn)];
}

const PUBLISHED: readonly string[] = [...new Set([...GGUF_PRE_TOKENIZERS.values()].flatMap(patternsIn))];
/** Pre-tokenizers with a pattern that could take quadratic time: a run of blanks or digits, or pieces up to some text. */
const BOUNDED = "afmoe chameleon cohere2moe deepseek-llm exaone-moe jais-2 kimi-k2 superbpe tiny_aya".split(" ");
const TEXTS: readonly string[] = [
  "Hello, world! I'm 12345 years\n\n  old.\t\u00e9t\u00e9 \u4e16\u754c \ud83d\ude00\ud83d\ude00 HTTPServer don'T  ",
  "   \n \r\n  x  \u0085 \ufeff a1b22c333  ...??? //\n/ \u0301\u0301A\u0301b",
  "",
  "AAAA aaaa AAaa \u01c5\u02b0 'll 'LL 're",
  "a".repeat(18),
];
/** Every construct that the parser takes. */
const CONSTRUCTS: readonly string[] = [
  "a|ab|abc",
  "(?:ab|a)(?:c|bcd)?",
  "a*?b|a+?",
  "(a|b)*c?",
  "(?:a*)*b|a",
  "(?=a)\\p{L}|(?!a)[^\\p{L}]+",
  "(?<=a)b|(?<!a)c|(?<![\\s\\S])H",
  "^H|\\.$|\\u{1f600}+|[\\]\\-x]",
  "(?<word>\\p{L}+)\\p{N}{2,3}?|\\p{N}{1,}",
  ".\\n?",
];

test("LinearRegExp matches as the engine does, for published patterns and each construct", () => {
  const patterns = [
    ...PUBLISHED.map((Regex) => translatePattern({ Regex })),
    ...CONSTRUCTS.map((source) => new RegExp(source, "gu")),
  ];
  for (const pattern of patterns) {
    assert.ok(pattern !== undefined);
    const linear = new LinearRegExp(pattern, pattern.flags);
    for (const text of TEXTS) {
      const matches = (expression: RegExp): unknown =>
        [...text.matchAll(expression)].map((match) => [match[0], match.index]);
      assert.deepEqual(matches(linear), matches(pattern), `${pattern.source} on ${JSON.stringify(text)}`);
      assert.deepEqual(text.replaceAll(linear, "-"), text.replaceAll(pattern, "-"));
      assert.deepEqual(text.match(linear), text.match(pattern));
    }
  }
});

test("published patterns keep the engine's own matcher, but for a few that could take long", () => {
  const isBounded = (Regex: string): boolean => translatePattern({ Regex }) instanceof LinearRegExp;
  const bounded = [...GGUF_PRE_TOKENIZERS].filter(([, section]) => patternsIn(section).some(isBounded));
  assert.deepEqual(bounded.map(([name]) => name).sort(), BOUNDED);
});

const HOSTILE: readonly string[] = [
  "(a+)+$",
  "(?:a|a)*b",
  "a*a*a*a*b",
  "(?:a?){40}a{40}",
  "(?:a|aa)+$",
  "a*b",
  "\\s*[\\r\\n]+x",
];

test("patterns that backtrack are matched in time that grows as the text does", () => {
  for (const source of HOSTILE) {
    const pattern = boundedPattern(new RegExp(source, "gu"));
    assert.ok(pattern instanceof LinearRegExp, source);
    // The engine's own would need longer than a test may take for the exponential ones.
    assert.doesNotThrow(() => [..."a".repeat(2000).concat("!").matchAll(pattern)], source);
  }
  const lookAhead = boundedPattern(/(?=(?:a+)+b)x/gu);
  assert.throws(() => [..."a".repeat(20_000).matchAll(lookAhead)], /too many steps for this text$/);
  assert.throws(
    () => [..."a".repeat(4_000_000).matchAll(boundedPattern(/(?:a|aa)*b/gu))],
    /^ServerError: the tokenizer's pattern takes too many steps for this text$/,
  );
});

test("isPlainPattern() takes no loop that can fail behind its end", () => {
  for (const source of HOSTILE) assert.equal(isPlainPattern(source), false, source);
  for (const source of ["a", "a|b+", " ?\\p{L}+", "\\p{N}{1,3}", "[^a]?b+c*", "[0-9][0-9]"])
    assert.equal(isPlainPattern(source), true, source);
});

test("every place for a pattern in tokenizer.json is bounded", () => {
  const Regex = "(?:x+)+$";
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
  const split = { type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false };
  const unigram = {
    type: "Unigram",
    unk_id: 0,
    vocab: [
      ["<unk>", 0],
      ["x", -1],
    ],
  };
  const files: readonly object[] = [
    { model: unigram, pre_tokenizer: split },
    { model: unigram, pre_tokenizer: { type: "Sequence", pretokenizers: [split, byteLevel] } },
    {
      model: unigram,
      normalizer: { type: "Sequence", normalizers: [{ type: "Replace", pattern: { Regex }, content: "y" }] },
    },
    {
      model: unigram,
      pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "Replace", pattern: { Regex }, content: "y" }] },
    },
  ];
  for (const tokenizer of files)
    createTokenizer({ tokenizer, config: {} }).encode(`${"x".repeat(60)}!`, { addSpecialTokens: false });
});

test("a pattern that no linear matcher takes is refused when the tokenizer is loaded", () => {
  assert.throws(() => boundedPattern(/(a+)+\1/gu), /pattern '\(a\+\)\+\\1': '\\1' at \d+ is not supported/);
  assert.throws(() => boundedPattern(/(?<=ab+)c/gu), /looks behind at more than one character/);
  assert.throws(() => boundedPattern(/(?:a{1000}){1000}/gu), /more than 4096 steps long/);
});
