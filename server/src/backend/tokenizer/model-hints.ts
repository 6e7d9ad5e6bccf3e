/** Model properties read from the files beside a tokenizer. Missing or malformed files give none. */
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const MAX_BYTES = 16 * 1024 * 1024;
/** Default: BERT's limit. */
const DEFAULT_LENGTH = 512;
/** Tokenizers of models without a bound say an enormous number. */
const LARGEST_LENGTH = 1_000_000;

/** Rows of the model's own embedding, which may be more than its tokenizer has tokens. */
export function modelVocabulary(folder: string): number | undefined {
  const config = readJson(folder, "config.json");
  const text = config.text_config;
  const inner = typeof text === "object" && text !== null ? (text as Readonly<Record<string, unknown>>) : {};
  return countOf(inner.vocab_size) ?? countOf(config.vocab_size);
}

/** Tokens of the longest text that the encoder was trained for. */
export function longestText(folder: string): number {
  const sentence = countOf(readJson(folder, "sentence_bert_config.json").max_seq_length);
  const tokenizer = countOf(readJson(folder, "tokenizer_config.json").model_max_length);
  return sentence ?? tokenizer ?? DEFAULT_LENGTH;
}

function countOf(value: unknown): number | undefined {
  return typeof value === "number" && Number.isInteger(value) && value > 0 && value <= LARGEST_LENGTH
    ? value
    : undefined;
}

function readJson(folder: string, name: string): Readonly<Record<string, unknown>> {
  try {
    const path = join(folder, name);
    if (statSync(path).size > MAX_BYTES) return {};
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    return typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}
