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

const CONTRACTION_SUFFIX = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?";
const GPT2_PATTERN = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";
/** Chinese and Japanese, then a mark before Latin letters, words, marks, white space: the family of DeepSeek-V3. */
const CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+";
const MARKED_WORDS =
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+";
const SENTENCES = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+";

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

/** GPT-4o's: words with their contractions. */
const GPT4O = split(
  `${CASED_WORDS.split("|")
    .map((words) => words + CONTRACTION_SUFFIX)
    .join("|")}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`,
);
const DEEPSEEK3 = split("\\p{N}{1,3}", CJK, `${MARKED_WORDS}| ?[\\p{P}\\p{S}]+[\\r\\n]*|${SPACES}`);
const BAILING = split(
  `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|${WORDS}|\\p{N}|${MARKS}|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
);
const BLOOM = split(SENTENCES);

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
  ...named(GPT2, ["jais", "trillion", "granite-docling", "gigachat", "a.x-4.0", "mellum", "exaone4"]),
  ...named(LLAMA3, ["falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"]),
  ...named({ ...LLAMA3, ignoresMerges: false, addsBos: false }, ["smaug-bpe", "glm4", "chatglm-bpe"]),
  ...named({ ...QWEN2, normalizer: null }, [
    "stablelm2",
    "hunyuan",
    "solar-open",
    "megrez",
    "kormo",
    "f2llmv2",
    "grok-2",
  ]),
  ...named(DIGITS, ["codeshell", "exaone", "minerva-7b", "mellum2"]),
  ...named(GPT4O, ["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"]),
  ...named(DEEPSEEK3, ["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"]),
  ...named(BAILING, ["bailingmoe", "bailingmoe2", "llada-moe"]),
  ...named(BLOOM, ["bloom", "poro-chat", "gpt3-finnish"]),
  ["viking", split(SENTENCES, "\\p{N}")],
  [
    "deepseek-coder",
    split("[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", "\\p{N}"),
  ],
  ["falcon", split("[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2_PATTERN, "[0-9][0-9][0-9]")],
  [
    "qwen35",
    split(
      `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|${SPACES}`,
    ),
  ],
  [
    "seed-coder",
    split(`${CONTRACTIONS}|${WORDS}|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`),
  ],
  ["minicpm5", { ...split("\\p{N}{1,3}", `${CONTRACTIONS}|${WORDS}|\\p{N}+|${MARKS}|${SPACES}`), ignoresMerges: true }],
  ["ufakzeka", split(`${WORDS}|\\p{N}|${MARKS}|${SPACES}`)],
]);

function named(rules: GgufPreTokenizer, names: readonly string[]): (readonly [string, GgufPreTokenizer])[] {
  return names.map((name) => [name, rules] as const);
}

function plain(section: GgufPreTokenizer["section"]): GgufPreTokenizer {
  return { section, ignoresMerges: false, addsBos: false, normalizer: null };
}

/** Patterns one after the other: each divides the pieces that the one before left. */
function split(...patterns: readonly string[]): GgufPreTokenizer {
  const splits = patterns.map((pattern) => ({
    type: "Split",
    pattern: { Regex: pattern },
    behavior: "Isolated",
    invert: false,
  }));
  return plain(sequence(...splits, BYTES_ONLY));
}

function sequence(...pretokenizers: readonly object[]): GgufPreTokenizer["section"] {
  return { type: "Sequence", pretokenizers };
}
