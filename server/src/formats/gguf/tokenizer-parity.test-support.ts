/**
 * Compares our tokenizers of GGUF metadata with libllama's: texts of many scripts by chance, vocabularies made of them, and
 * the ids of both.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createRandom } from "../../../../tests/support/random.ts";
import { LlamaModel } from "../../device/llama/llama-model.ts";
import type { Llama } from "../../native/llama/llama.ts";
import { BYTE_TO_CHAR } from "../tokenizer/byte-level-alphabet.ts";
import { createTokenizer, type Tokenizer } from "../tokenizer/tokenizer.ts";
import { ARRAY, F32, type GgufField, ggufBytes, STRING, U32 } from "./gguf-writer.test-support.ts";
import type { GgufValue } from "./header.ts";
import { ggufTokenizerFiles } from "./tokenizer.ts";

const I32 = 5;
const BOOL = 7;
const U8 = 0;
const MARK = "\u2581";

/** Words, blanks, digits and marks of many scripts, and what splits them. */
const PARTS: readonly string[] = [
  ...["hello", " world", "don't", "'S", "I'LL", "123", "4", "1234567", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t"],
  ...["!", "...", "?!", "(x)", "[y]", "{z}", "/a/b", "\\", "$", "+", "<tag>", "=", "^", "`", "|", "~", "_", ".\n\n"],
  ...["\u00e9", "e\u0301", "\u00f1", "\u00c4\u00d6", "\u00df", "\u4e2d\u6587", "\u6771\u4eac", "\u30ab\u30bf\u30ab"],
  ...["\ud55c\uad6d\uc5b4", "\u0e2a\u0e27\u0e31\u0e2a", "\u0645\u0631\u062d", "\u05e9\u05dc", "\u041f\u0440\u0438"],
  ...["\u03b5\u03bb", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u{1f642}", "\u{1f44d}\u{1f3fd}", "\u00bd", "\u00b2"],
  ...["\u0661\u0662", "\u00a0", "\u2003", "\u3000", "\u3002", "\uff0c", "\u300c", "\u2026", "\u201c", "\uff46\uff55"],
  ...["\ufb01", "\u0130", "\u01c5", "aB", "ABc", "camelCase", "snake_case", "x=1", "\u00b0", "\u3005", "\u200d"],
  ...["\u0085", "\u3105\u3106", "\ua9b2", "\u1797\u17b6", "\u1019\u103c", "\u{20000}", "\u{1d400}", "\ufeff", "a1"],
];
const PLANES: readonly (readonly [first: number, count: number])[] = [
  [32, 95],
  [0xa1, 0x500],
  [0x4e00, 2000],
  [0x1f300, 300],
];

export const SPECIAL_TOKENS: readonly string[] = ["<|end|>", "<tool>"];

export function randomTexts(seed: number, count: number): readonly string[] {
  const random = createRandom(seed);
  const part = (): string => {
    if (random.below(10) > 0) return random.pick([...PARTS, ...SPECIAL_TOKENS]);
    const [first, size] = random.pick(PLANES);
    return String.fromCodePoint(first + random.below(size));
  };
  const texts = Array.from({ length: count }, () => Array.from({ length: 1 + random.below(8) }, part).join(""));
  return [...PARTS, ...texts];
}

export interface Merged {
  readonly tokens: readonly string[];
  readonly merges: readonly string[];
}

/** Half of the sequences of two and three letters that the texts have, as merges. */
export function mergesOf(letters: readonly string[], words: readonly (readonly string[])[]): Merged {
  const random = createRandom(11);
  const tokens = new Set(letters);
  const merges: string[] = [];
  for (const width of [2, 3]) {
    for (const word of words) {
      for (let at = 0; at + width <= word.length; at++) {
        const left = word.slice(at, at + width - 1).join("");
        const right = word[at + width - 1] ?? "";
        const isNew = tokens.has(left) && tokens.has(right) && !tokens.has(left + right);
        if (!isNew || /[\n ]/.test(left + right) || random.below(2) === 0) continue;
        tokens.add(left + right);
        merges.push(`${left} ${right}`);
      }
    }
  }
  return { tokens: [...tokens], merges };
}

export function byteLevelMerges(texts: readonly string[]): Merged {
  return mergesOf(
    BYTE_TO_CHAR,
    texts.map((text) => Array.from(Buffer.from(text), (byte) => BYTE_TO_CHAR[byte] ?? "")),
  );
}

/** Characters with marks for spaces; some become bytes. */
export function characterMerges(texts: readonly string[]): Merged {
  const words = texts.map((text) => [...text.replaceAll(" ", MARK)]);
  const letters = [...new Set(words.flat())].filter((_, i) => i % 7 !== 3);
  const { tokens, merges } = mergesOf(letters, words);
  return { tokens: [...tokens, "\n\n", "\n\n\n"], merges };
}

export const BYTE_TOKENS: readonly string[] = Array.from(
  { length: 256 },
  (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
);

/** Values behind `tokenizer.ggml.`; lists of numbers are floats in `scores`, and bytes in the character map. */
export type Keys = Readonly<Record<string, string | number | boolean | readonly string[] | readonly number[]>>;

/** A file with a vocabulary alone. */
export function vocabularyFile(keys: Keys): Uint8Array {
  const sizes = ["context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"];
  const fields: readonly GgufField[] = [
    ["general.architecture", STRING, "llama"],
    ...sizes.map((key): GgufField => [`llama.${key}`, U32, 32]),
    ...Object.entries(keys).map(([key, value]): GgufField => [`tokenizer.ggml.${key}`, ...typed(key, value)]),
  ];
  return ggufBytes({ fields, tensors: [] });
}

function typed(key: string, value: Keys[string]): readonly [type: number, value: unknown] {
  if (typeof value === "string") return [STRING, value];
  if (typeof value === "boolean") return [BOOL, Uint8Array.of(Number(value))];
  if (typeof value === "number") return [U32, value];
  if (typeof value[0] === "string") return [ARRAY, [STRING, value]];
  if (key === "precompiled_charsmap") return [ARRAY, [U8, value.map((byte) => Uint8Array.of(Number(byte)))]];
  return [ARRAY, [key === "scores" ? F32 : I32, value]];
}

export function ourTokenizer(keys: Keys): Tokenizer {
  const metadata = Object.entries(keys).map(([key, value]) => [`tokenizer.ggml.${key}`, value as GgufValue] as const);
  return createTokenizer(ggufTokenizerFiles(new Map(metadata), "model.gguf"));
}

/** The ids of each text, without and with special tokens around it. */
export async function libraryIds(
  llama: Llama,
  folder: string,
  keys: Keys,
  texts: readonly string[],
): Promise<readonly (readonly number[])[]> {
  const path = join(folder, "vocabulary.gguf");
  writeFileSync(path, vocabularyFile(keys));
  const model = await LlamaModel.load({ path, vocabularyOnly: true, llama });
  const ids = texts.flatMap((text) =>
    [false, true].map((addsSpecial) => {
      const bytes = Buffer.from(text);
      const out = new Int32Array(4 * bytes.length + 16);
      const count = llama.functions.tokenize(model.vocabulary, bytes, bytes.length, out, out.length, addsSpecial, true);
      return [...out.subarray(0, count)];
    }),
  );
  model.close();
  return ids;
}

export function ourIds(tokenizer: Tokenizer, texts: readonly string[]): readonly (readonly number[])[] {
  return texts.flatMap((text) =>
    [false, true].map((addSpecialTokens) => [...tokenizer.encode(text, { addSpecialTokens })]),
  );
}

/** Types of tokens: control, user-defined, byte and normal ones. */
export function typesOf(tokens: readonly string[], control: readonly string[] = []): readonly number[] {
  const bytes = new Set(BYTE_TOKENS);
  return tokens.map((token) => {
    if (token === "<unk>") return 2;
    if (control.includes(token) || token === SPECIAL_TOKENS[0]) return 3;
    return token === SPECIAL_TOKENS[1] ? 4 : bytes.has(token) ? 6 : 1;
  });
}
