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
const GPT4O_WORDS = withContractions(CASED_WORDS);
const GPT4O_PATTERN = `${GPT4O_WORDS}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`;
const GPT4O = split(GPT4O_PATTERN);
const DEEPSEEK3 = split("\\p{N}{1,3}", CJK, `${MARKED_WORDS}| ?[\\p{P}\\p{S}]+[\\r\\n]*|${SPACES}`);
const BAILING = split(
  `'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|${WORDS}|\\p{N}|${MARKS}|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
);
const BLOOM = split(SENTENCES);
/** Digits in threes, counted from their end. */
const THREES = "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))";
const DEEPSEEK_LETTERS =
  "A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ" +
  "-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ" +
  "-ﬆﬓ-ﬗＡ-Ｚａ-ｚ\u{10400}-\u{1044f}\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-" +
  "\u{10cf2}\u{118a0}-\u{118df}\u{1e900}-\u{1e943}";
const AFMOE_SCRIPTS =
  "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f" +
  "\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+";
const MARKED_SENTENCES = `${MARKED_WORDS}| ?[\\p{P}\\p{S}]+[\\r\\n]*|${SPACES}`;
const QWEN2_PATTERN = `${CONTRACTIONS}|${WORDS}|\\p{N}|${MARKS}|${SPACES}`;
/** Tekken's words without Chinese, which stand alone. */
const KIMI_WORDS = CASED_WORDS.replaceAll(/\[(\\p\{L[ul]\}[^\]]*)\]/g, "(?:(?!\\p{Script=Han})[$1])");
/** Splits of many blanks at powers of two. */
const BLANKS = [512, 256, 128, 64, 32, 16, 8, 4].map((count) => `\\s{${count}}(?!\\S)`).join("|");

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
  ["deepseek-r1-qwen", QWEN2],
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
  ...named(GPT2, ["jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code", "roberta-bpe"]),
  ["modern-bert", { ...GPT2, normalizer: { type: "NFC" } }],
  ["granite-embed-multi-97m", { ...GPT4O, ignoresMerges: true }],
  ["default", split("[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_PATTERN, "\\p{N}+", "[0-9][0-9][0-9]")],
  [
    "deepseek-llm",
    split(
      "[\\r\\n]",
      `\\s?[${DEEPSEEK_LETTERS}]+`,
      "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
      "\\s+$",
      "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
      "\\p{N}+",
    ),
  ],
  [
    "youtu",
    {
      ...split(
        "[\uac00-\ud7a3\u3131-\u318e]+|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|[\u3105-\u312f]+|" +
          CJK,
        `${GPT4O_WORDS}|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${SPACES}`,
      ),
      ignoresMerges: true,
    },
  ],
  ["jais-2", split(`${CONTRACTIONS}|${WORDS}|\\p{N}{1,3}|${MARKS}|\\s*[\\r\\n]+|${BLANKS}|\\s{1,2}(?!\\S)|\\s{1}`)],
  ["spark2_5", split("\\p{N}{1,3}", CJK, `${MARKED_WORDS}| ?[\\p{P}\\p{S}]+|[\\r\\n]|\\s+(?!\\S)|\\s+`, "\\p{N}")],
  [
    "chameleon",
    {
      ...split(
        "<sentinel:[0-9]+>",
        "(?:IMGIMG)(?:(?:A|B|C|D|E|F|G|H|I){1,4})Z",
        "(?:[\\t\\n]|    |  )",
        "\\p{N}",
        "[\\p{P}!-/:-@\\[-`{-~]",
        GPT2_PATTERN,
      ),
      addsBos: true,
    },
  ],
  ...named(split("\\d{1,3}(?=(?:\\d{3})*\\b)", GPT4O_PATTERN), ["tiny_aya", "cohere2moe"]),
  ["superbpe", split("\\p{N}+", "[\\s\\S]+?(?=(?:[0-9]{3})+(?![0-9])|(?![\\s\\S]))")],
  ["kimi-k2", split(`\\p{Script=Han}+|${withContractions(KIMI_WORDS)}|\\p{N}{1,3}|${MARKS}|${SPACES}`)],
  ["laguna", split("[^\\n]+|[\\n]+", QWEN2_PATTERN)],
  ["afmoe", split(THREES, AFMOE_SCRIPTS, MARKED_SENTENCES)],
  [
    "exaone-moe",
    split(
      `${CONTRACTIONS}|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+`,
    ),
  ],
  ["ufakzeka", split(`${WORDS}|\\p{N}|${MARKS}|${SPACES}`)],
]);

/** Names whose merges join characters instead of bytes. */
export interface CharacterPreTokenizer {
  /** Spaces become U+2581. */
  readonly marksSpaces: boolean;
  readonly addsBos: boolean;
  readonly words: RegExp;
  readonly wholeWords?: RegExp;
}

const LINES = /[^\n]+|\n+/g;
const GEMMA4 = { marksSpaces: true, addsBos: true, words: LINES, wholeWords: /^\n+$/ } as const;

export const CHARACTER_RULES: ReadonlyMap<string, CharacterPreTokenizer> = new Map<string, CharacterPreTokenizer>([
  ["gemma4", GEMMA4],
  ["granite-embed-multi-311m", GEMMA4],
  ["sarvam-moe", { marksSpaces: true, addsBos: false, words: LINES }],
  ["whitespace", { marksSpaces: false, addsBos: false, words: /\P{White_Space}+/gu }],
]);

/** Each alternative with a contraction behind it. */
function withContractions(words: string): string {
  return words
    .split("|")
    .map((each) => each + CONTRACTION_SUFFIX)
    .join("|");
}

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
