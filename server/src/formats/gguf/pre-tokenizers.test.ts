import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { LlamaModel } from "../../device/llama/llama-model.ts";
import { type Llama, openLlama } from "../../native/llama/llama.ts";
import { createTokenizer } from "../tokenizer/tokenizer.ts";
import { ARRAY, type GgufField, ggufBytes, STRING, U32 } from "./gguf-writer.test-support.ts";
import type { GgufValue } from "./header.ts";
import { GGUF_PRE_TOKENIZERS } from "./pre-tokenizers.ts";
import { ggufTokenizerFiles } from "./tokenizer.ts";

const I32 = 5;
const BOOL = 7;
const folder = mkdtempSync(join(tmpdir(), "pre-tokenizers-"));
after(() => rmSync(folder, { recursive: true }));

/** GPT-2's letters for bytes. */
const isShown = (byte: number): boolean => (byte > 32 && byte < 127) || (byte > 160 && byte < 173) || byte > 173;
let hidden = 256;
const BYTES = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isShown(byte) ? byte : hidden++));
const lettersOf = (text: string): string[] => [...Buffer.from(text)].map((byte) => BYTES[byte] ?? "");

/** Words of these rules may hold combining marks, as in the original tokenizers. In libllama's they do not. */
const MARKED = "\u00e9e\u0301a";
const TAKES_MARKS: readonly string[] = ["tekken", "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"];
const TEXTS: readonly string[] = [
  ...["aB", "'s", "'Sx", "I've", MARKED, "!\n!", "a  12", "\n\n", "x\n\n\ny", ".\n\n", "a1", "/\n", "x'll"],
  "hello world, don't you'LL they're 'sx DON'T",
  "1 12 123 1234 12345 a1b2 x123y v1.2.3 3.14",
  "line\nline\n\nline \n  line\r\n\r\n  \n x   y    z",
  "caf\u00e9 na\u00efve \u4e2d\u6587\u4e2d\u6587abc \u3042\u3044\u3046 \u0645\u0631\u062d\u0628\u0627 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
  "foo_bar /a/b.c ...!!?) (x) [y] {z} a/b\n\t\tif (AB == aB) { Ab++; }",
  "   leading, trailing   ",
  "\u{1F642}\u{1F642} emoji\u{1F468}\u200d\u{1F469} $1,000.00 #tag @me 50% ~x `y` a^b",
];

/** Every two neighbours in the texts may merge, so that ids show where a text was split. */
const tokens = [...BYTES];
const merges: string[] = [];
for (const text of TEXTS) {
  const letters = lettersOf(text);
  for (const [i, letter] of letters.slice(1).entries()) {
    const before = letters[i] ?? "";
    if (tokens.includes(before + letter)) continue;
    tokens.push(before + letter);
    merges.push(`${before} ${letter}`);
  }
}

function fieldsOf(pre: string): readonly GgufField[] {
  return [
    ["general.architecture", STRING, "llama"],
    ...(["context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"].map(
      (key) => [`llama.${key}`, U32, 32] as const,
    ) as readonly GgufField[]),
    ["tokenizer.ggml.model", STRING, "gpt2"],
    ["tokenizer.ggml.pre", STRING, pre],
    ["tokenizer.ggml.tokens", ARRAY, [STRING, tokens]],
    ["tokenizer.ggml.token_type", ARRAY, [I32, tokens.map(() => 1)]],
    ["tokenizer.ggml.merges", ARRAY, [STRING, merges]],
    ["tokenizer.ggml.add_bos_token", BOOL, Uint8Array.of(0)],
  ];
}

/** libllama normalizes no text, as transformers does for some models. */
async function idsOfLibrary(llama: Llama, pre: string, isNormalized: boolean): Promise<readonly (readonly number[])[]> {
  const path = join(folder, `${pre}.gguf`);
  writeFileSync(path, ggufBytes({ fields: fieldsOf(pre), tensors: [] }));
  const model = await LlamaModel.load({ path, vocabularyOnly: true, llama });
  const ids = TEXTS.map((text) => {
    const bytes = Buffer.from(isNormalized ? text.normalize("NFC") : text);
    const out = new Int32Array(bytes.length + 8);
    const count = llama.functions.tokenize(model.vocabulary, bytes, bytes.length, out, out.length, false, false);
    return [...out.subarray(0, count)];
  });
  model.close();
  return ids;
}

function idsOfOurs(pre: string): readonly (readonly number[])[] {
  const metadata = new Map<string, GgufValue>([
    ["tokenizer.ggml.model", "gpt2"],
    ["tokenizer.ggml.pre", pre],
    ["tokenizer.ggml.tokens", tokens],
    ["tokenizer.ggml.merges", merges],
    ["tokenizer.ggml.add_bos_token", false],
  ]);
  const tokenizer = createTokenizer(ggufTokenizerFiles(metadata, pre));
  return TEXTS.map((text) => [...tokenizer.encode(text, { addSpecialTokens: false })]);
}

test("texts are split as libllama splits them, for every name of a pre-tokenizer", async () => {
  const llama = openLlama();
  const ours = new Map<unknown, readonly (readonly number[])[]>();
  for (const [pre, { section, normalizer }] of GGUF_PRE_TOKENIZERS) {
    const rules = JSON.stringify([section, normalizer]);
    const actual = ours.get(rules) ?? idsOfOurs(pre);
    ours.set(rules, actual);
    const expected = await idsOfLibrary(llama, pre, normalizer !== null);
    const texts = [...TEXTS.entries()].filter(([, text]) => text !== MARKED || !TAKES_MARKS.includes(pre));
    for (const [i, text] of texts) assert.deepEqual(actual[i], expected[i], `${pre}: ${JSON.stringify(text)}`);
  }
  const kinds = new Set([...ours.values()].map((ids) => JSON.stringify(ids)));
  assert.ok(kinds.size >= 16, `the texts tell ${kinds.size} of ${ours.size} rules apart`);
});
