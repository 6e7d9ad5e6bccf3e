/**
 * The `pre_tokenizer` section of tokenizer.json for each `tokenizer.ggml.pre` name of GGUF. A GGUF file holds the name
 * only; the rules are those of the original models. Source: ggml/docs/gguf.md, "Tokenizer", and the tokenizers library.
 */

export interface GgufPreTokenizer {
  /** `pre_tokenizer` of tokenizer.json. */
  readonly section: Readonly<Record<string, unknown>>;
  /** A word that is a token is taken whole and not merged (`ignore_merges`). */
  readonly ignoresMerges: boolean;
  /** Default of `tokenizer.ggml.add_bos_token` when the file omits it. */
  readonly addsBos: boolean;
  readonly normalizer: Readonly<Record<string, unknown>> | null;
}

/** Parts shared by the patterns of many models: contractions, punctuation, white space. */
const CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
const WORDS = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+";
const MARKS = " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*";
const SPACES = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
/** Words of one capital and lower-case letters, or of capitals. */
const CASED_WORDS =
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|" +
  "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*";

const BYTES_ONLY = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false };
const BYTES_OF_GPT2 = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };

const GPT2 = plain(BYTES_OF_GPT2);
const DIGITS = plain(sequence({ type: "Digits", individual_digits: true }, BYTES_OF_GPT2));
const LLAMA3 = {
  ...split(`${CONTRACTIONS}|${WORDS}|\\p{N}{1,3}|${MARKS}|${SPACES}`),
  ignoresMerges: true,
  addsBos: true,
};
const QWEN2 = { ...split(`${CONTRACTIONS}|${WORDS}|\\p{N}|${MARKS}|${SPACES}`), normalizer: { type: "NFC" } };
const TEKKEN = {
  ...split(`${CASED_WORDS}|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`),
  ignoresMerges: true,
  addsBos: true,
};

export const GGUF_PRE_TOKENIZERS: ReadonlyMap<string, GgufPreTokenizer> = new Map([
  ["gpt-2", GPT2],
  ["phi-2", GPT2],
  ["olmo", GPT2],
  ["mpt", GPT2],
  ["llama-bpe", LLAMA3],
  ["llama-v3", LLAMA3],
  ["llama3", LLAMA3],
  ["dbrx", { ...LLAMA3, ignoresMerges: false, addsBos: false }],
  ["qwen2", QWEN2],
  ["deepseek-r1-qwen", { ...QWEN2, addsBos: true }],
  ["starcoder", DIGITS],
  ["smollm", DIGITS],
  ["refact", DIGITS],
  ["command-r", { ...DIGITS, normalizer: { type: "NFC" } }],
  ["tekken", TEKKEN],
]);

function plain(section: GgufPreTokenizer["section"]): GgufPreTokenizer {
  return { section, ignoresMerges: false, addsBos: false, normalizer: null };
}

function split(pattern: string): GgufPreTokenizer {
  return plain(
    sequence({ type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false }, BYTES_ONLY),
  );
}

function sequence(...pretokenizers: readonly object[]): GgufPreTokenizer["section"] {
  return { type: "Sequence", pretokenizers };
}
