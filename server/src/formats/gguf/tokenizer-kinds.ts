/**
 * The kinds of tokenizers that `tokenizer.ggml.model` names: sections of tokenizer.json for those that it describes, and
 * codecs for the others. Sources: ggml/docs/gguf.md, "Tokenizer"; llama.cpp's names, defaults and order of steps.
 */

import { BYTE_TO_CHAR } from "../tokenizer/byte-level-alphabet.ts";
import { createPairTable } from "../tokenizer/byte-level-merge.ts";
import { byteTokens, CharacterCodec } from "../tokenizer/character-bpe.ts";
import { LongestTokenCodec } from "../tokenizer/longest-token.ts";
import { PlamoCodec } from "../tokenizer/plamo.ts";
import { PrecompiledCharsmap } from "../tokenizer/precompiled-charsmap.ts";
import { pairTableOfScores } from "../tokenizer/score-merges.ts";
import type { SectionCodec } from "../tokenizer/section-encoder.ts";
import { TokenTrie } from "../tokenizer/token-trie.ts";
import { parseMerges } from "../tokenizer/tokenizer-json.ts";
import { UnigramCodec } from "../tokenizer/unigram.ts";
import { WordPieceCodec } from "../tokenizer/word-piece.ts";
import { CHARACTER_RULES, type CharacterPreTokenizer, GGUF_PRE_TOKENIZERS } from "./pre-tokenizers.ts";
import { TOKEN_TYPES, type TokenizerKeys } from "./tokenizer-keys.ts";

export interface TokenizerKind {
  /** Sections of tokenizer.json. */
  readonly sections: Readonly<Record<string, unknown>>;
  readonly codec?: SectionCodec;
  /** Defaults of `add_bos_token` and `add_eos_token`. */
  readonly addsBos: boolean;
  readonly addsEos?: boolean;
  /** A separator ends a text, and stands between two. */
  readonly addsSeparator?: boolean;
  /** Ids of special tokens that the file may leave out. */
  readonly ids?: Readonly<Record<"bos" | "eos" | "separator" | "padding", number | undefined>>;
}

/** U+2581, the space mark of SentencePiece. */
const MARK = "\u2581";
/** An unknown character costs this much more than the worst token (SentencePiece's kUnkPenalty). */
const UNKNOWN_PENALTY = 10;
const NO_IDS = { bos: undefined, eos: undefined, separator: undefined, padding: undefined } as const;
const BYTE_LEVEL_DECODER = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true };
const RESTORED_SPACES = { type: "Replace", pattern: { String: MARK }, content: " " };
const FUSED_BYTES = [RESTORED_SPACES, { type: "ByteFallback" }, { type: "Fuse" }] as const;

const KINDS: ReadonlyMap<string, (keys: TokenizerKeys) => TokenizerKind> = new Map([
  ["gpt2", (keys: TokenizerKeys) => bpe(keys, keys.text("pre"))],
  ["gemma4", (keys: TokenizerKeys) => bpe(keys, "gemma4")],
  ["whitespace", (keys: TokenizerKeys) => bpe(keys, "whitespace")],
  ["llama", scored],
  ["bert", wordPiece],
  ["t5", unigram],
  ["rwkv", longestToken],
  ["plamo2", plamo],
]);

/** @throws Error naming file and key */
export function tokenizerKindOf(keys: TokenizerKeys): TokenizerKind {
  const model = keys.text("model");
  const kind = KINDS.get(model ?? "");
  if (kind === undefined) throw keys.refusal("model", `one of ${[...KINDS.keys()].join(", ")}`, model);
  return kind(keys);
}

function bpe(keys: TokenizerKeys, name: string | undefined): TokenizerKind {
  const characters = CHARACTER_RULES.get(name ?? "");
  if (characters !== undefined) return characterBpe(keys, characters);
  const pre = GGUF_PRE_TOKENIZERS.get(name ?? "");
  if (pre === undefined) {
    const names = [...GGUF_PRE_TOKENIZERS.keys(), ...CHARACTER_RULES.keys()];
    throw keys.refusal("pre", `one of ${names.join(", ")}`, name);
  }
  const model = {
    type: "BPE",
    vocab: vocabularyOf(keys),
    merges: keys.texts("merges"),
    ignore_merges: pre.ignoresMerges,
  };
  return {
    sections: { model, decoder: BYTE_LEVEL_DECODER, pre_tokenizer: pre.section, normalizer: pre.normalizer },
    addsBos: pre.addsBos,
  };
}

/** Merges of characters instead of bytes. */
function characterBpe(keys: TokenizerKeys, rules: CharacterPreTokenizer): TokenizerKind {
  const vocab = vocabularyOf(keys);
  const vocabulary = new Map(Object.entries(vocab));
  const lowersCase = keys.flag("normalizer.lowercase") ?? false;
  const marked = (text: string): string => (rules.marksSpaces ? text.replaceAll(" ", MARK) : text);
  const codec = new CharacterCodec({
    ...rules,
    vocabulary,
    byteIds: byteTokens(vocabulary),
    pairs: createPairTable(vocabulary, parseMerges(keys.texts("merges"))),
    normalize: (text) => (lowersCase && !rules.marksSpaces ? text.toLowerCase() : marked(text)),
    prefix: (text) => text,
  });
  const decoder = { type: "Sequence", decoders: rules.marksSpaces ? FUSED_BYTES : FUSED_BYTES.slice(1) };
  return { sections: { model: { type: "BPE", vocab }, decoder }, codec, addsBos: rules.addsBos };
}

/** SentencePiece's BPE: merges by the scores of tokens. */
function scored(keys: TokenizerKeys): TokenizerKind {
  const vocab = vocabularyOf(keys);
  const ids = new Map(keys.tokens.map((token, id) => [token, id]));
  const hasPrefix = keys.flag("add_space_prefix") ?? true;
  const codec = new CharacterCodec({
    vocabulary: new Map(Object.entries(vocab)),
    byteIds: bytesOrUnknown(keys, ids),
    pairs: pairTableOfScores(ids, keys.numbers("scores")),
    normalize: (text) => (hasPrefix ? MARK : "") + text.replaceAll(" ", MARK),
    prefix: (text) => text,
  });
  const strip = { type: "Strip", content: " ", start: 1, stop: 0 };
  const decoder = { type: "Sequence", decoders: hasPrefix ? [...FUSED_BYTES, strip] : FUSED_BYTES };
  return {
    sections: { model: { type: "BPE", vocab, byte_fallback: true }, decoder },
    codec,
    addsBos: true,
    ids: { ...NO_IDS, bos: 1, eos: 2 },
  };
}

/** BERT's WordPiece. In GGUF the tokens that start a word have a mark, and others none. */
function wordPiece(keys: TokenizerKeys): TokenizerKind {
  const unknown = keys.token("unknown_token_id", 100);
  if (unknown === undefined) throw keys.refusal("unknown_token_id", "a token", undefined);
  const trie = new TokenTrie();
  for (const [id, token] of keys.tokens.entries()) trie.add(unitsOf(token), id);
  const vocab = Object.fromEntries(keys.tokens.map((token, id) => [wordPieceName(token, keys.typeOf(id)), id]));
  const lowersCase = keys.flag("normalizer.lowercase") ?? true;
  return {
    sections: {
      model: { type: "WordPiece", vocab, unk_token: unknown.text },
      decoder: { type: "WordPiece", prefix: "##", cleanup: true },
    },
    codec: new WordPieceCodec({
      trie,
      unknownId: unknown.id,
      lowersCase,
      stripsAccents: keys.flag("normalizer.strip_accents") ?? lowersCase,
    }),
    addsBos: true,
    addsSeparator: true,
    ids: { bos: keys.token("cls_token_id")?.id ?? 101, eos: undefined, separator: 102, padding: 0 },
  };
}

function wordPieceName(token: string, type: number): string {
  if (type !== TOKEN_TYPES.normal || /^\[.*\]$/s.test(token)) return token;
  return token.startsWith(MARK) ? token.slice(MARK.length) : `##${token}`;
}

/** SentencePiece's unigram model. */
function unigram(keys: TokenizerKeys): TokenizerKind {
  const unknown = keys.token("unknown_token_id", 2);
  if (unknown === undefined) throw keys.refusal("unknown_token_id", "a token", undefined);
  const { normal, userDefined, unused } = TOKEN_TYPES;
  const scores = Float64Array.from(keys.numbers("scores"));
  const trie = new TokenTrie();
  let worst = Number.POSITIVE_INFINITY;
  for (const [id, token] of keys.tokens.entries()) {
    const type = keys.typeOf(id);
    if (type === normal) worst = Math.min(worst, scores[id] ?? 0);
    if (type === userDefined) scores[id] = 0;
    if (type === normal || type === userDefined || type === unused) trie.add(Buffer.from(token), id);
  }
  if (!Number.isFinite(worst)) throw keys.refusal("scores", "numbers of normal tokens", worst);
  return {
    sections: {
      model: {
        type: "Unigram",
        unk_id: unknown.id,
        vocab: Object.fromEntries(keys.tokens.map((token, id) => [token, id])),
      },
      decoder: { type: "Metaspace", replacement: MARK, prepend_scheme: "always" },
    },
    codec: new UnigramCodec({
      trie,
      scores,
      unknownId: unknown.id,
      unknownScore: worst - UNKNOWN_PENALTY,
      charsmap: charsmapOf(keys),
      addsPrefix: keys.flag("add_space_prefix") ?? false,
      mergesSpaces: keys.flag("remove_extra_whitespaces") ?? false,
    }),
    addsBos: false,
    addsEos: true,
    ids: { ...NO_IDS, eos: 1, padding: 0 },
  };
}

function charsmapOf(keys: TokenizerKeys): PrecompiledCharsmap | undefined {
  const bytes = keys.bytes("precompiled_charsmap");
  if (bytes === undefined) return undefined;
  try {
    return new PrecompiledCharsmap(bytes);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(keys.refusal("precompiled_charsmap", "SentencePiece's table", reason).message, { cause });
  }
}

/** RWKV's World vocabulary: tokens are bytes, written with escapes. */
function longestToken(keys: TokenizerKeys): TokenizerKind {
  const trie = new TokenTrie();
  const letters = keys.tokens.map((token, id) => {
    const bytes = unescaped(token);
    trie.add(bytes, id);
    return keys.typeOf(id) === TOKEN_TYPES.normal ? Array.from(bytes, (byte) => BYTE_TO_CHAR[byte]).join("") : token;
  });
  const unknown = keys.token("unknown_token_id");
  for (let byte = 0; byte < 256 && unknown === undefined; byte++) {
    if (trie.longest([byte], 0) === undefined)
      throw keys.refusal("tokens", "a token of each byte", `none of byte ${byte}`);
  }
  const vocab = Object.fromEntries(letters.map((token, id) => [token, id]));
  return {
    sections: { model: { type: "LongestToken", vocab }, decoder: BYTE_LEVEL_DECODER },
    codec: new LongestTokenCodec(trie, unknown?.id ?? 0),
    addsBos: false,
  };
}

/** Python's escapes: \t, \n, \r, \xhh; any other character stands for itself. */
function unescaped(token: string): Uint8Array {
  const parts = token.matchAll(/\\x([0-9a-fA-F]{2})|\\(.)|[^\\]+/gsu);
  const named: Readonly<Record<string, string>> = { t: "\t", n: "\n", r: "\r" };
  return Buffer.concat(
    Array.from(parts, ([all, hex, escaped]) =>
      hex !== undefined
        ? Uint8Array.of(Number.parseInt(hex, 16))
        : Buffer.from(escaped === undefined ? all : (named[escaped] ?? escaped)),
    ),
  );
}

function plamo(keys: TokenizerKeys): TokenizerKind {
  const vocab = vocabularyOf(keys);
  const byteIds = everyByte(keys);
  const trie = new TokenTrie();
  const scores = Int32Array.from(keys.numbers("scores"), (score) => Math.round(score * 1e4));
  for (const [id, token] of keys.tokens.entries()) {
    if (keys.typeOf(id) !== TOKEN_TYPES.byte) trie.add(unitsOf(token), id);
  }
  return {
    sections: {
      model: { type: "Plamo", vocab },
      decoder: { type: "Sequence", decoders: [{ type: "ByteFallback" }, { type: "Fuse" }] },
    },
    codec: new PlamoCodec({ trie, scores, byteIds }),
    addsBos: false,
    ids: { ...NO_IDS, bos: 1, eos: 2, padding: 3 },
  };
}

/** Files without any token of a byte have other text as unknown. @throws Error naming the byte if some have one */
function bytesOrUnknown(keys: TokenizerKeys, ids: ReadonlyMap<string, number>): readonly number[] {
  const unknown = keys.token("unknown_token_id", 0)?.id;
  const bytes = byteTokens(ids);
  if (unknown === undefined || bytes.some((id) => id !== undefined)) return everyByte(keys);
  return bytes.map((_, byte) => ids.get(String.fromCharCode(byte)) ?? unknown);
}

/** @throws Error naming the byte that has no token */
function everyByte(keys: TokenizerKeys): readonly number[] {
  return byteTokens(new Map(keys.tokens.map((token, id) => [token, id]))).map((id, byte) => {
    if (id === undefined) throw keys.refusal("tokens", "a token of each byte", `none of byte ${byte}`);
    return id;
  });
}

function unitsOf(text: string): Uint16Array {
  return Uint16Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
}

/** The vocabulary without tokens that are matched in text before encoding. */
function vocabularyOf({ tokens, types }: TokenizerKeys): Readonly<Record<string, number>> {
  const { control, userDefined } = TOKEN_TYPES;
  const isAdded = (id: number): boolean => types?.[id] === control || types?.[id] === userDefined;
  return Object.fromEntries(tokens.flatMap((token, id) => (isAdded(id) ? [] : [[token, id] as const])));
}
