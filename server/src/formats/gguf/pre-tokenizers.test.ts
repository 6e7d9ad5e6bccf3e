import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { testSize } from "../../../../tests/support/long-tests.ts";
import { openLlama } from "../../native/llama/llama.ts";
import { CHARACTER_RULES, GGUF_PRE_TOKENIZERS } from "./pre-tokenizers.ts";
import {
  BYTE_TOKENS,
  byteLevelMerges,
  characterMerges,
  type Keys,
  libraryIds,
  ourIds,
  ourTokenizer,
  randomTexts,
  SPECIAL_TOKENS,
  typesOf,
} from "./tokenizer-parity.test-support.ts";

const folder = mkdtempSync(join(tmpdir(), "pre-tokenizers-"));
after(() => rmSync(folder, { recursive: true }));

const TEXTS = randomTexts(5, testSize(60, 2000));

/** In no text: a second one is not added. */
const BEGIN = "<|begin|>";

/** Names that libllama takes, of all words in its binary. */
const NAMES: readonly string[] = [
  ...["a.x-4.0", "afmoe", "bailingmoe", "bailingmoe2", "bloom", "chameleon", "chatglm-bpe", "codeshell", "cohere2moe"],
  ...["command-r", "dbrx", "deepseek-coder", "deepseek-llm", "deepseek-r1-qwen", "deepseek-v3", "default", "exaone"],
  ...["exaone-moe", "exaone4", "f2llmv2", "falcon", "falcon-h1", "falcon3", "gemma4", "gigachat", "glm4", "gpt-2"],
  ...["gpt-4o", "gpt3-finnish", "granite-docling", "granite-embed-multi-311m", "granite-embed-multi-97m", "grok-2"],
  ...["hunyuan", "hunyuan-dense", "hy_v4", "jais", "jais-2", "jina-de", "jina-es", "jina-v1-en", "jina-v2-code"],
  ...["jina-v2-de", "jina-v2-es", "jina-v5-nano", "joyai-llm", "kanana2", "kimi-k2", "kormo", "laguna", "lfm2"],
  ...[
    "llada-moe",
    "llama-bpe",
    "llama-v3",
    "llama3",
    "llama4",
    "megrez",
    "mellum",
    "mellum2",
    "midm-2.0",
    "minerva-7b",
  ],
  ...["minicpm5", "minimax-m2", "modern-bert", "mpt", "olmo", "phi-2", "pixtral", "poro-chat", "qwen2", "qwen35"],
  ...[
    "refact",
    "roberta-bpe",
    "sarvam-moe",
    "seed-coder",
    "smaug-bpe",
    "smollm",
    "solar-open",
    "spark2_5",
    "stablelm2",
  ],
  ...["starcoder", "superbpe", "talkie", "tekken", "tiny_aya", "trillion", "ufakzeka", "viking", "whitespace", "youtu"],
];

/** Texts in which libllama departs from the models' own tokenizers, which are followed here: it knows no cases of letters. */
const MARKS_AND_CASES = /\p{M}|(?![a-zA-Z])[\p{Lu}\p{Ll}\p{Lt}]/u;
const CAPITALS = /[\p{M}\p{Lu}\p{Lt}]|(?![a-z])\p{Ll}/u;
const DEPARTURES: ReadonlyMap<string, RegExp> = new Map([
  ...["tekken", "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "granite-embed-multi-97m"].map(
    (name) => [name, MARKS_AND_CASES] as const,
  ),
  ["youtu", CAPITALS],
  // It counts digits of ASCII alone, and ends words at letters.
  ["tiny_aya", /[\p{M}\p{Lu}\p{Lt}]|(?![a-z])\p{Ll}|(?![0-9])\p{N}|[0-9][\p{L}_]/u],
  ["cohere2moe", /[\p{M}\p{Lu}\p{Lt}]|(?![a-z])\p{Ll}|(?![0-9])\p{N}|[0-9][\p{L}_]/u],
  ["kimi-k2", /[\p{M}\p{Lu}\p{Lt}\u3005]|(?![a-z])\p{Ll}/u],
  // It takes other blanks than ASCII's for blanks alone, and not for characters of a range.
  ["deepseek-coder", /(?![\0-\xa0])\p{White_Space}/u],
  ["deepseek-llm", /(?![\0-\xa0])\p{White_Space}/u],
  // It splits what stands before digits.
  ["afmoe", /[^\p{L}\p{N}]\p{N}/u],
]);

function byteLevelKeys(pre: string): Keys {
  const { tokens, merges } = byteLevelMerges(TEXTS.slice(0, 200));
  const all = [...tokens, ...SPECIAL_TOKENS, BEGIN];
  return {
    ...{ model: "gpt2", pre, tokens: all, token_type: typesOf(all, [BEGIN]), merges },
    ...{ bos_token_id: all.indexOf(BEGIN), eos_token_id: tokens.length },
  };
}

function characterKeys(pre: string): Keys {
  const isBlank = (text: string): boolean => /[\s\u2581]/u.test(text);
  const { tokens, merges } = characterMerges(TEXTS.slice(0, 200));
  const isPlain = pre === "whitespace";
  const all = [...tokens.filter((token) => !(isPlain && isBlank(token))), ...BYTE_TOKENS, ...SPECIAL_TOKENS, BEGIN];
  return {
    model: pre === "gemma4" || isPlain ? pre : "gpt2",
    ...{ pre, tokens: all, token_type: typesOf(all, [BEGIN]), bos_token_id: all.indexOf(BEGIN) },
    merges: merges.filter((merge) => !isPlain || !isBlank(merge.replace(" ", ""))),
  };
}

test("the tables have each name of a pre-tokenizer that libllama knows", async () => {
  const known = [...GGUF_PRE_TOKENIZERS.keys(), ...CHARACTER_RULES.keys()].sort();
  assert.deepEqual(known, [...NAMES].sort());
});

test("texts get the ids of libllama, for every name of a pre-tokenizer", async (t) => {
  const llama = openLlama();
  let numIds = 0;
  for (const pre of NAMES) {
    const departure = DEPARTURES.get(pre);
    const texts = TEXTS.filter((text) => departure?.test(text) !== true);
    const keys = CHARACTER_RULES.has(pre) ? characterKeys(pre) : byteLevelKeys(pre);
    // It normalizes no text, as transformers does for some models.
    const isNormalized = (GGUF_PRE_TOKENIZERS.get(pre)?.normalizer ?? null) !== null;
    const sent = isNormalized ? texts.map((text) => text.normalize("NFC")) : texts;
    const expected = await libraryIds(llama, folder, keys, sent);
    const actual = ourIds(ourTokenizer(keys), texts);
    for (const [i, ids] of actual.entries())
      assert.deepEqual(ids, expected[i], `${pre}: ${JSON.stringify(texts[i >> 1])}`);
    numIds += actual.reduce((sum, ids) => sum + ids.length, 0);
    assert.ok(texts.length >= 40, `${pre}: ${texts.length} texts`);
  }
  t.diagnostic(`${numIds} ids`);
});

test("the texts tell the rules of pre-tokenizers apart", () => {
  const keys = byteLevelKeys("gpt-2");
  const kinds = [...GGUF_PRE_TOKENIZERS.keys()].map((pre) =>
    JSON.stringify(ourIds(ourTokenizer({ ...keys, pre }), TEXTS)),
  );
  assert.ok(new Set(kinds).size >= 28, `${new Set(kinds).size} kinds`);
});
