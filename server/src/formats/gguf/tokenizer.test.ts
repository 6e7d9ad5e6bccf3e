import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { pairTableOfScores } from "../tokenizer/score-merges.ts";
import { createTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import { hasTokenizerFiles, loadTokenizer } from "../tokenizer/tokenizer-files.ts";
import type { GgufValue } from "./header.ts";
import { ggufTokenizerFiles } from "./tokenizer.ts";

const RECORDED = fileURLToPath(new URL("../../../../tests/parity/tokenizers/", import.meta.url));
const EXPECTED = JSON.parse(readFileSync(`${RECORDED}expected.json`, "utf8")) as Record<
  string,
  Record<string, number[]>
>;

const directory = await mkdtemp(join(tmpdir(), "gguf-tokenizer-"));
after(() => rm(directory, { recursive: true }));

const encode = (tokenizer: Tokenizer, text: string, addSpecialTokens = false): number[] => [
  ...tokenizer.encode(text, { addSpecialTokens }),
];

for (const [name, texts] of Object.entries(EXPECTED)) {
  test(`loadTokenizer() of a GGUF file gives the ids of the library that trained it: ${name}`, async () => {
    const tokenizer = await loadTokenizer(`${RECORDED}${name}.gguf`);
    for (const [text, ids] of Object.entries(texts)) {
      assert.deepEqual(encode(tokenizer, text), ids, JSON.stringify(text));
      const normal = name === "qwen2" ? text.normalize("NFC") : text;
      assert.equal(tokenizer.decode(ids, { skipSpecialTokens: true }), normal);
    }
  });
}

/** A byte-level vocabulary: all bytes, one merge, and tokens that are matched whole. */
const letters = Array.from({ length: 256 }, (_, byte) => {
  const isShown = (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || byte > 173;
  return isShown ? String.fromCharCode(byte) : undefined;
});
let hidden = 256;
const BYTES = letters.map((letter) => letter ?? String.fromCharCode(hidden++));
const TOKENS = [...BYTES, "ab", "<|start|>", "<|end|>", "<tool>"];
const TYPES = TOKENS.map((token) => (token.startsWith("<|") ? 3 : token === "<tool>" ? 4 : 1));
const METADATA: Readonly<Record<string, GgufValue>> = {
  "tokenizer.ggml.model": "gpt2",
  "tokenizer.ggml.pre": "llama-bpe",
  "tokenizer.ggml.tokens": TOKENS,
  "tokenizer.ggml.token_type": TYPES,
  "tokenizer.ggml.merges": ["a b"],
  "tokenizer.ggml.bos_token_id": 257,
  "tokenizer.ggml.eos_token_id": 258,
  "tokenizer.chat_template": "{{ messages }}",
};

function tokenizerOf(changes: Readonly<Record<string, GgufValue | undefined>>): Tokenizer {
  const entries = Object.entries({ ...METADATA, ...changes }).filter(
    (entry): entry is [string, GgufValue] => entry[1] !== undefined,
  );
  return createTokenizer(ggufTokenizerFiles(new Map(entries), "model.gguf"));
}

test("ggufTokenizerFiles() keeps special tokens, their ids and the chat template", () => {
  const tokenizer = tokenizerOf({});
  assert.deepEqual(encode(tokenizer, "ab<|end|><tool>ab"), [256, 258, 259, 256]);
  assert.equal(tokenizer.decode([256, 258, 259], { skipSpecialTokens: true }), "ab<tool>");
  assert.deepEqual([tokenizer.bosId, tokenizer.eosId, tokenizer.padId], [257, 258, 258]);
  assert.equal(tokenizer.vocabularySize, TOKENS.length);
  assert.equal(tokenizer.chatTemplate, "{{ messages }}");
});

const FRAMES: readonly (readonly [changes: Readonly<Record<string, GgufValue>>, ids: readonly number[]])[] = [
  [{}, [257, 256]],
  [{ "tokenizer.ggml.add_bos_token": false }, [256]],
  [{ "tokenizer.ggml.pre": "qwen2" }, [256]],
  [{ "tokenizer.ggml.pre": "qwen2", "tokenizer.ggml.add_bos_token": true }, [257, 256]],
  [{ "tokenizer.ggml.add_eos_token": true }, [257, 256, 258]],
];
for (const [changes, ids] of FRAMES) {
  test(`ggufTokenizerFiles() puts special tokens around a text as ${JSON.stringify(changes)} says`, () => {
    assert.deepEqual(encode(tokenizerOf(changes), "ab", true), ids);
  });
}

const REFUSED: readonly (readonly [changes: Readonly<Record<string, GgufValue | undefined>>, expected: RegExp])[] = [
  [{ "tokenizer.ggml.model": "cuneiform" }, /^model\.gguf: tokenizer\.ggml\.model: expected .*, got "cuneiform"$/],
  [{ "tokenizer.ggml.model": undefined }, /tokenizer\.ggml\.model: expected one of gpt2, .*, got nothing/],
  [{ "tokenizer.ggml.pre": "klingon" }, /tokenizer\.ggml\.pre: expected one of gpt-2, .*, got "klingon"$/],
  [{ "tokenizer.ggml.pre": undefined }, /tokenizer\.ggml\.pre: expected one of .*, got nothing/],
  [{ "tokenizer.ggml.tokens": [1, 2] }, /tokenizer\.ggml\.tokens: expected a list of texts/],
  [{ "tokenizer.ggml.token_type": [1] }, /tokenizer\.ggml\.token_type: expected 260 numbers/],
  [{ "tokenizer.ggml.merges": "a b" }, /tokenizer\.ggml\.merges: expected a list of texts/],
  [{ "tokenizer.ggml.bos_token_id": 260 }, /tokenizer\.ggml\.bos_token_id: expected an id from 0 to 259, got "260"/],
  [{ "tokenizer.ggml.model": "llama" }, /tokenizer\.ggml\.scores: expected 260 numbers, got nothing/],
  [{ "tokenizer.ggml.model": "plamo2" }, /tokens: expected a token of each byte/],
  [{ "tokenizer.ggml.model": "t5" }, /tokenizer\.ggml\.scores: expected 260 numbers, got nothing/],
];
for (const [changes, expected] of REFUSED) {
  test(`ggufTokenizerFiles() refuses ${JSON.stringify(changes)}`, () => {
    assert.throws(() => tokenizerOf(changes), { message: expected });
  });
}

test("pairTableOfScores() ranks merges by the token that they make, and passes over endless tokens", () => {
  const tokens = ["a", "b", "ab", "aba", "ba", "\u{1F642}a", "\u{1F642}", "a".repeat(300)];
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const pairs = pairTableOfScores(ids, [0, 0, -1, -3, -2, -4, 0, 0]);
  const ranked = tokens.flatMap((left, i) =>
    tokens.flatMap((right, j) => {
      const slot = pairs.find(i, j);
      return slot < 0 ? [] : [[pairs.rankAt(slot), left, right, tokens[pairs.mergedAt(slot)]]];
    }),
  );
  assert.deepEqual(
    ranked.sort((a, b) => Number(a[0]) - Number(b[0])),
    [
      [0, "a", "b", "ab"],
      [1, "b", "a", "ba"],
      [2, "a", "ba", "aba"],
      [2, "ab", "a", "aba"],
      [3, "\u{1F642}", "a", "\u{1F642}a"],
    ],
  );
});

test("hasTokenizerFiles() and loadTokenizer() take a folder with a GGUF file, and prefer tokenizer.json", async () => {
  const folder = await mkdtemp(join(directory, "model-"));
  assert.equal(hasTokenizerFiles(folder), false);
  assert.equal(hasTokenizerFiles(join(folder, "none")), false);
  await writeFile(join(folder, "model.gguf"), readFileSync(`${RECORDED}qwen2.gguf`));
  assert.equal(hasTokenizerFiles(folder), true);
  assert.equal(hasTokenizerFiles(join(folder, "model.gguf")), true);
  assert.deepEqual(encode(await loadTokenizer(folder), "Hello world"), EXPECTED.qwen2?.["Hello world"]);
  await writeFile(join(folder, "tokenizer.json"), "{");
  await assert.rejects(loadTokenizer(folder), /tokenizer\.json: not valid JSON/);
});
