import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import * as huggingFace from "@huggingface/tokenizers";
import { MAX_UNPAUSED_TEXT_CHARS } from "../../core/limits.ts";
import { ServerError } from "../../core/server-error.ts";
import { createTokenizer, type Tokenizer } from "./tokenizer.ts";
import { loadTokenizer } from "./tokenizer-files.ts";

const EXAMPLE = new URL("../../../../examples/nereid-tiny/", import.meta.url);
const PLAIN = { addSpecialTokens: false };
const FRAMED = { addSpecialTokens: true };

interface GoldenPrompt {
  readonly prompt: string;
  readonly input_ids: readonly number[];
}

interface TokenizerJson {
  readonly added_tokens: readonly object[];
  readonly model: object;
}

const golden = readExample("golden_text.json") as readonly GoldenPrompt[];
const json = readExample("language_model/tokenizer.json") as TokenizerJson;
const config = readExample("language_model/tokenizer_config.json");

const AWKWARD: readonly (readonly [name: string, text: string])[] = [
  ["nothing", ""],
  ["one space", " "],
  ["spaces and line ends", "  \n\n \t x \r\n"],
  ["emoji joined by ZWJ", "👩‍🚀👨‍👩‍👧‍👦"],
  ["combining marks", "e\u0301 a\u030a\u0327"],
  ["no-break spaces", "a\u00a0\u00a0b\u202fc"],
  ["code", "def f(x):\n    return x**2  # ok\n\n\tif (a && b) {}"],
  ["Chinese and Japanese", "漢字かな交じり文。"],
  ["Arabic", "مرحبا بالعالم"],
  ["contractions", "it's we'RE I'LL don't"],
  ["numbers", "12345 ½² 3.14 １２"],
  ["controls", "\u0000\u0001\u007f\u200b\u2028"],
  ["special tokens inside", "a <s>[INST] b [/INST]c</s><pad> <image>"],
  ["broken special tokens", "<s <s[INST] [/INST <<s>>"],
  ["a long word of one letter", "a".repeat(5000)],
  ["a long word of many", Array.from({ length: 9000 }, (_, i) => String.fromCharCode(97 + ((i * i) % 26))).join("")],
  ["a long word of emoji", "👍".repeat(3000)],
  ["long white space", `${" ".repeat(3000)}x`],
  ["lone surrogates", "a\ud800b\udc00\ud83d"],
];

const LLAMA3_PATTERN =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const BYTES_ONLY = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
const split = (rule: object): object => ({
  pre_tokenizer: { type: "Sequence", pretokenizers: [{ type: "Split", ...rule }, BYTES_ONLY] },
});

const VARIANTS: readonly (readonly [name: string, change: object])[] = [
  ["as it is", {}],
  ["with a prefix space", { pre_tokenizer: { ...BYTES_ONLY, add_prefix_space: true, use_regex: true } }],
  ["with the pattern of Llama 3", split({ pattern: { Regex: LLAMA3_PATTERN }, behavior: "Isolated", invert: false })],
  ["with matches kept", split({ pattern: { Regex: LLAMA3_PATTERN }, behavior: "Removed", invert: true })],
  ["with NFC", { normalizer: { type: "NFC" } }],
  ["with whole words first", { model: { ...json.model, ignore_merges: true } }],
  [
    "with single digits",
    {
      pre_tokenizer: {
        type: "Sequence",
        pretokenizers: [
          { type: "Digits", individual_digits: true },
          { ...BYTES_ONLY, use_regex: true },
        ],
      },
    },
  ],
];

for (const [variant, change] of VARIANTS) {
  describe(`a byte-level tokenizer ${variant}`, () => {
    const tokenizer = createTokenizer({ tokenizer: { ...json, ...change }, config });
    const library = libraryEncoder({ ...json, ...change });
    for (const [name, text] of AWKWARD) {
      test(`\`encode()\` gives the ids of the reference for ${name}`, () => {
        assert.deepEqual([...tokenizer.encode(text, PLAIN)], library(text));
      });
    }
  });
}

test("`encode()` drops the delimiters that the tokenizer removes", () => {
  const rule = { pattern: { String: " " }, behavior: "Removed", invert: false };
  const tokenizer = createTokenizer({ tokenizer: { ...json, ...split(rule) }, config });
  const [a, b] = ["one", "two"].map((word) => [...tokenizer.encode(word, PLAIN)]);
  assert.deepEqual([...tokenizer.encode(" one  two ", PLAIN)], [...(a ?? []), ...(b ?? [])]);
});

test("`encode()` gives the recorded ids of the example prompts", async () => {
  const tokenizer = await exampleTokenizer();
  for (const { prompt, input_ids } of golden)
    assert.deepEqual([...tokenizer.encode(prompt, FRAMED)], input_ids, prompt);
});

test("`encode()` adds no second start token to a text that brings one", async () => {
  const tokenizer = await exampleTokenizer();
  assert.deepEqual([...tokenizer.encode("<s>hi", FRAMED)], [...tokenizer.encode("hi", FRAMED)]);
  assert.equal(tokenizer.encode(" <s>hi", FRAMED)[0], tokenizer.bosId);
  assert.equal(tokenizer.encode("<s><s>hi", FRAMED).filter((id) => id === tokenizer.bosId).length, 2);
});

test("`encode()` gives the same ids again when words come from its cache", async () => {
  const tokenizer = await exampleTokenizer();
  const text = "the same words, the same words";
  assert.deepEqual(tokenizer.encode(text, PLAIN), tokenizer.encode(text, PLAIN));
});

test("`encodeSteps()` pauses in long texts and in long words, and runs that interleave do not disturb each other", async () => {
  const tokenizer = await exampleTokenizer();
  const texts = ["many words ".repeat(20_000), "x".repeat(200_000)];
  const runs = texts.map((text) => ({ text, steps: tokenizer.encodeSteps(text, PLAIN), numSteps: 0 }));
  for (let open = runs.length; open > 0; ) {
    for (const run of runs) {
      const { done, value } = run.steps.next();
      if (value === undefined) run.numSteps += 1;
      else assert.deepEqual(value, tokenizer.encode(run.text, PLAIN));
      if (done === true && value !== undefined) open -= 1;
    }
  }
  for (const { numSteps } of runs) assert.ok(numSteps > 3, `${numSteps} pauses`);
});

test("`decode()` gives back what `encode()` took", async () => {
  const tokenizer = await exampleTokenizer();
  for (const [name, text] of AWKWARD) {
    const expected = Buffer.from(text).toString();
    assert.equal(tokenizer.decode(tokenizer.encode(text, PLAIN), { skipSpecialTokens: false }), expected, name);
  }
});

test("`decode()` leaves out special tokens, padding and ids that do not exist", async () => {
  const tokenizer = await exampleTokenizer();
  const ids = [...tokenizer.encode("<s>[INST] hello", PLAIN), -1, 0, 999_999, ...tokenizer.encode(" there</s>", PLAIN)];
  assert.equal(tokenizer.decode(ids, { skipSpecialTokens: true }), " hello there");
});

test("a tokenizer knows its special tokens, its size and its chat template", async () => {
  const tokenizer = await exampleTokenizer();
  const { bosId, eosId, padId, vocabularySize } = tokenizer;
  assert.deepEqual({ bosId, eosId, padId, vocabularySize }, { bosId: 1, eosId: 2, padId: 0, vocabularySize: 6144 });
  assert.equal(tokenizer.idOf("[INST]"), 3);
  assert.equal(tokenizer.tokenOf(3), "[INST]");
  assert.match(tokenizer.chatTemplate ?? "", /messages/);
});

test("`padId` is the end token where there is no padding token", () => {
  const tokenizer = createTokenizer({ tokenizer: json, config: { eos_token: { content: "</s>" } } });
  assert.equal(tokenizer.padId, 2);
  assert.equal(tokenizer.bosId, undefined);
});

test("`chatTemplate` is the one named default where the configuration has several", () => {
  const templates = [
    { name: "tool_use", template: "A" },
    { name: "default", template: "B" },
  ];
  assert.equal(createTokenizer({ tokenizer: json, config: { chat_template: templates } }).chatTemplate, "B");
});

test("added tokens take the space beside them, stand alone where they must, and win by length", () => {
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: false };
  const added = [
    ...json.added_tokens,
    { ...flags, id: 6144, content: "<tool>", lstrip: true, rstrip: true },
    { ...flags, id: 6145, content: "word", single_word: true, normalized: true },
    { ...flags, id: 6146, content: "<tool>x" },
  ];
  const tokenizer = createTokenizer({ tokenizer: { ...json, added_tokens: added }, config });
  const idsOf = (text: string): number[] => [...tokenizer.encode(text, PLAIN)];
  assert.deepEqual(idsOf("a  <tool> \n b"), [...idsOf("a"), 6144, ...idsOf("b")]);
  assert.deepEqual(idsOf("<tool>x"), [6146]);
  assert.deepEqual(idsOf("a word."), [...idsOf("a "), 6145, ...idsOf(".")]);
  for (const text of ["sword", "words", "word\u200d", "𝐀word"]) assert.ok(!idsOf(text).includes(6145), text);
});

const MARK = "\u2581";
const SENTENCE_PIECE_VOCABULARY = [
  "<unk>",
  "<s>",
  ...Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  ...`${MARK}abcdefinorstx漢.`,
  ...[`${MARK}${MARK}`, "in", "re", `${MARK}a`, `${MARK}x`, "aa", "aaaa", "def", "ef", `${MARK}in`],
];
const sentencePiece = {
  added_tokens: [{ id: 1, content: "<s>", special: true }],
  post_processor: null,
  decoder: null,
  model: {
    type: "BPE",
    byte_fallback: true,
    fuse_unk: true,
    unk_token: "<unk>",
    vocab: Object.fromEntries(SENTENCE_PIECE_VOCABULARY.map((token, id) => [token, id])),
    merges: ["a a", "e f", `${MARK} ${MARK}`, "i n", "aa aa", "r e", "d ef", `${MARK} a`, `${MARK} x`, `${MARK} in`],
  },
};
const replaceSpaces = { type: "Replace", pattern: { String: " " }, content: MARK };
const metaspace = { type: "Metaspace", replacement: MARK, split: false };

const SENTENCE_PIECE_VARIANTS: readonly (readonly [name: string, change: object])[] = [
  [
    "of Llama 2",
    {
      normalizer: { type: "Sequence", normalizers: [{ type: "Prepend", prepend: MARK }, replaceSpaces] },
      pre_tokenizer: null,
    },
  ],
  ["of Gemma", { normalizer: replaceSpaces, pre_tokenizer: null }],
  ["of Mistral", { normalizer: null, pre_tokenizer: { ...metaspace, prepend_scheme: "first" } }],
  ["with a mark before every section", { normalizer: null, pre_tokenizer: { ...metaspace, prepend_scheme: "always" } }],
];

for (const [variant, change] of SENTENCE_PIECE_VARIANTS) {
  describe(`a SentencePiece tokenizer ${variant}`, () => {
    const tokenizer = createTokenizer({ tokenizer: { ...sentencePiece, ...change }, config: {} });
    const library = libraryEncoder({ ...sentencePiece, ...change });
    for (const [name, text] of AWKWARD) {
      test(`\`encode()\` gives the ids of the reference for ${name}`, () => {
        assert.deepEqual([...tokenizer.encode(text, PLAIN)], library(text));
      });
    }

    test("`encode()` takes a text that the reference could only do in one long go", () => {
      assert.ok(tokenizer.encode("in re ".repeat(MAX_UNPAUSED_TEXT_CHARS / 4), PLAIN).length > 1000);
    });
  });
}

describe("a tokenizer of another kind", () => {
  const unigram = {
    added_tokens: [{ id: 0, content: "<unk>", special: true }],
    normalizer: null,
    pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "always" },
    post_processor: null,
    decoder: { type: "Metaspace", replacement: "▁", prepend_scheme: "always" },
    model: {
      type: "Unigram",
      unk_id: 0,
      vocab: [
        ["<unk>", 0],
        ["▁he", -1],
        ["llo", -1.5],
        ["▁", -3],
        ["h", -4],
        ["e", -4],
      ],
    },
  };

  test("`encode()` works by the library", () => {
    const tokenizer = createTokenizer({ tokenizer: unigram, config: {} });
    assert.deepEqual([...tokenizer.encode("hello he", PLAIN)], [1, 2, 1]);
    assert.equal(tokenizer.decode([1, 2, 1], { skipSpecialTokens: true }), "hello he");
  });

  test("`encode()` refuses a text that it could only do in one long go", () => {
    const tokenizer = createTokenizer({ tokenizer: unigram, config: {} });
    assert.throws(() => tokenizer.encode("h".repeat(MAX_UNPAUSED_TEXT_CHARS + 1), PLAIN), ServerError);
  });
});

const BROKEN: readonly (readonly [name: string, change: object, message: RegExp])[] = [
  ["no model", { model: 3 }, /model: expected an object, got 3/],
  ["an id that is no id", { model: { ...json.model, vocab: { a: -1 } } }, /model\.vocab\["a"\]: expected a token id/],
  [
    "an id beyond all bounds",
    { added_tokens: [{ id: 1e9, content: "x" }] },
    /added_tokens\[0\]\.id: expected a token id/,
  ],
  [
    "a merge of unknown tokens",
    { model: { ...json.model, merges: ["x yy"] } },
    /merges\[0\]: token "yy" is not in the vocabulary/,
  ],
  ["an empty vocabulary", { model: { ...json.model, vocab: [] } }, /model\.vocab: expected tokens, got none/],
  ["a merge of one token", { model: { ...json.model, merges: ["xy"] } }, /merges\[0\]: expected two tokens/],
  [
    "a template with an unknown token",
    { post_processor: { type: "TemplateProcessing", single: [{ SpecialToken: { id: "?" } }] } },
    /expected the ids of "\?"/,
  ],
];

for (const [name, change, message] of BROKEN) {
  test(`\`createTokenizer()\` says where a file with ${name} is wrong`, () => {
    assert.throws(() => createTokenizer({ tokenizer: { ...json, ...change }, config }), message);
  });
}

test("`loadTokenizer()` names the file that is missing", async () => {
  await assert.rejects(loadTokenizer("/nonexistent"), /\/nonexistent\/tokenizer\.json: no such file/);
});

function exampleTokenizer(): Promise<Tokenizer> {
  return loadTokenizer(fileURLToPath(new URL("language_model", EXAMPLE)));
}

function readExample(path: string): unknown {
  return JSON.parse(readFileSync(new URL(path, EXAMPLE), "utf8"));
}

function libraryEncoder(file: object): (text: string) => number[] {
  const { Tokenizer: Library } = huggingFace as unknown as {
    Tokenizer: new (file: object, config: object) => { encode(text: string, options: object): { ids: number[] } };
  };
  const library = new Library(file, config as object);
  return (text) => library.encode(text, { add_special_tokens: false }).ids;
}

test("createTokenizer() refuses files that the library cannot use, when they are loaded", () => {
  const unigram = {
    type: "Unigram",
    unk_id: 0,
    vocab: [
      ["<unk>", 0],
      ["a", -1],
    ],
  };
  const refused: readonly (readonly [json: object, message: RegExp])[] = [
    [{ model: { ...unigram, unk_id: 2 ** 31 } }, /^Error: tokenizer\.json: a token of the text: expected a token id/],
    [
      { model: unigram, normalizer: { type: "Sequence", normalizers: 5 } },
      /^Error: tokenizer\.json: the tokenizer cannot be used: /,
    ],
    [{ model: unigram, decoder: { type: "Replace" } }, /^Error: tokenizer\.json: the tokenizer cannot be used: /],
    [{ model: { type: "BPE", vocab: { a: 0 }, merges: [5] } }, /^Error: /],
  ];
  for (const [tokenizer, message] of refused) assert.throws(() => createTokenizer({ tokenizer, config: {} }), message);
});
