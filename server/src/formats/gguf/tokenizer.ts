/**
 * Converts the tokenizer metadata of a GGUF file to tokenizer.json, so that one reader serves both. Source:
 * ggml/docs/gguf.md, "Tokenizer". Unknown kinds are refused by name: a wrong pre-tokenizer degrades a model silently.
 */

import { mergesOfScores } from "../tokenizer/score-merges.ts";
import type { TokenizerFiles } from "../tokenizer/tokenizer.ts";
import type { GgufValue } from "./header.ts";
import { GGUF_PRE_TOKENIZERS } from "./pre-tokenizers.ts";

type Metadata = ReadonlyMap<string, GgufValue>;

/** Token types by number (`tokenizer.ggml.token_type`). */
const UNKNOWN = 2;
const CONTROL = 3;
const USER_DEFINED = 4;
/** U+2581, the space mark of SentencePiece. */
const MARK = "\u2581";

/** @throws Error naming file and key */
export function ggufTokenizerFiles(metadata: Metadata, file: string): TokenizerFiles {
  const keys = new TokenizerKeys(metadata, file);
  const model = keys.text("model");
  if (model === "gpt2") return filesOf(keys, byteLevel(keys));
  if (model === "llama") return filesOf(keys, scored(keys));
  throw keys.refusal("model", '"gpt2" or "llama"', model);
}

class TokenizerKeys {
  readonly #metadata: Metadata;
  readonly #file: string;
  readonly tokens: readonly string[];
  /** Undefined: all tokens are normal ones. */
  readonly types: readonly number[] | undefined;

  constructor(metadata: Metadata, file: string) {
    this.#metadata = metadata;
    this.#file = file;
    const tokens = this.#get("tokens");
    if (!isListOf(tokens, "string") || tokens.length === 0) throw this.refusal("tokens", "a list of texts", undefined);
    this.tokens = tokens;
    const types = this.#get("token_type");
    const areTypes = types === undefined || (isListOf(types, "number") && types.length === tokens.length);
    if (!areTypes) throw this.refusal("token_type", `${tokens.length} numbers`, undefined);
    this.types = types;
  }

  text(key: string): string | undefined {
    const value = this.#get(key);
    return typeof value === "string" ? value : undefined;
  }

  flag(key: string): boolean | undefined {
    const value = this.#get(key);
    return typeof value === "boolean" ? value : undefined;
  }

  /** The token that a key refers to by id. */
  token(key: string): { readonly id: number; readonly text: string } | undefined {
    const id = this.#get(key);
    if (id === undefined) return undefined;
    const text = typeof id === "number" ? this.tokens[id] : undefined;
    if (typeof id === "number" && text !== undefined) return { id, text };
    throw this.refusal(key, `an id from 0 to ${this.tokens.length - 1}`, id);
  }

  numbers(key: string): readonly number[] {
    const value = this.#get(key);
    if (isListOf(value, "number") && value.length === this.tokens.length) return value;
    throw this.refusal(key, `${this.tokens.length} numbers`, value === undefined ? undefined : "others");
  }

  texts(key: string): readonly string[] {
    const value = this.#get(key);
    if (isListOf(value, "string")) return value;
    throw this.refusal(key, "a list of texts", undefined);
  }

  refusal(key: string, expected: string, got: unknown): Error {
    const shown = got === undefined ? "nothing" : JSON.stringify(String(got).slice(0, 80));
    return new Error(`${this.#file}: tokenizer.ggml.${key}: expected ${expected}, got ${shown}`);
  }

  chatTemplate(): string | undefined {
    const value = this.#metadata.get("tokenizer.chat_template");
    return typeof value === "string" ? value : undefined;
  }

  #get(key: string): GgufValue | undefined {
    return this.#metadata.get(`tokenizer.ggml.${key}`);
  }
}

function isListOf(value: unknown, type: "string"): value is readonly string[];
function isListOf(value: unknown, type: "number"): value is readonly number[];
function isListOf(value: unknown, type: "string" | "number"): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === type);
}

interface Sections {
  readonly sections: Readonly<Record<string, unknown>>;
  readonly addsBos: boolean;
}

function byteLevel(keys: TokenizerKeys): Sections {
  const name = keys.text("pre");
  const pre = name === undefined ? undefined : GGUF_PRE_TOKENIZERS.get(name);
  if (pre === undefined) throw keys.refusal("pre", `one of ${[...GGUF_PRE_TOKENIZERS.keys()].join(", ")}`, name);
  const model = {
    type: "BPE",
    vocab: vocabularyOf(keys),
    merges: keys.texts("merges"),
    ignore_merges: pre.ignoresMerges,
  };
  const decoder = { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true };
  return {
    sections: { model, decoder, pre_tokenizer: pre.section, normalizer: pre.normalizer },
    addsBos: pre.addsBos,
  };
}

function scored(keys: TokenizerKeys): Sections {
  const ids = new Map(keys.tokens.map((token, id) => [token, id]));
  const merges = mergesOfScores(ids, keys.numbers("scores"));
  const hasPrefix = keys.flag("add_space_prefix") ?? true;
  const unknown = keys.token("unknown_token_id")?.text ?? "<unk>";
  const model = {
    type: "BPE",
    vocab: vocabularyOf(keys),
    merges,
    byte_fallback: true,
    fuse_unk: true,
    unk_token: unknown,
  };
  const replace = { type: "Replace", pattern: { String: " " }, content: MARK };
  const restore = { type: "Replace", pattern: { String: MARK }, content: " " };
  const whole = [restore, { type: "ByteFallback" }, { type: "Fuse" }];
  const strip = { type: "Strip", content: " ", start: 1, stop: 0 };
  return {
    sections: {
      model,
      normalizer: {
        type: "Sequence",
        normalizers: hasPrefix ? [{ type: "Prepend", prepend: MARK }, replace] : [replace],
      },
      pre_tokenizer: null,
      decoder: { type: "Sequence", decoders: hasPrefix ? [...whole, strip] : whole },
    },
    addsBos: true,
  };
}

/** The vocabulary without tokens that are matched in text before encoding. */
function vocabularyOf({ tokens, types }: TokenizerKeys): Readonly<Record<string, number>> {
  const isAdded = (id: number): boolean => types?.[id] === CONTROL || types?.[id] === USER_DEFINED;
  return Object.fromEntries(tokens.flatMap((token, id) => (isAdded(id) ? [] : [[token, id] as const])));
}

function filesOf(keys: TokenizerKeys, { sections, addsBos }: Sections): TokenizerFiles {
  const bos = keys.token("bos_token_id");
  const eos = keys.token("eos_token_id");
  const frame = {
    before: (keys.flag("add_bos_token") ?? addsBos) ? bos : undefined,
    after: (keys.flag("add_eos_token") ?? false) ? eos : undefined,
  };
  const named = { bos_token: bos?.text, eos_token: eos?.text, pad_token: keys.token("padding_token_id")?.text };
  return {
    tokenizer: { ...sections, added_tokens: addedTokens(keys), post_processor: template(frame) },
    config: named,
    chatTemplate: keys.chatTemplate(),
  };
}

function addedTokens({ tokens, types }: TokenizerKeys): readonly object[] {
  const added: object[] = [];
  for (const [id, content] of tokens.entries()) {
    const type = types?.[id];
    const isSpecial = type === CONTROL || type === UNKNOWN;
    if ((!isSpecial && type !== USER_DEFINED) || content === "") continue;
    added.push({
      id,
      content,
      special: isSpecial,
      normalized: false,
      single_word: false,
      lstrip: false,
      rstrip: false,
    });
  }
  return added;
}

type Named = { readonly id: number; readonly text: string } | undefined;

function template({ before, after }: { readonly before: Named; readonly after: Named }): unknown {
  const special = (token: Named): object[] =>
    token === undefined ? [] : [{ SpecialToken: { id: token.text, type_id: 0 } }];
  const tokens = [before, after].flatMap((token) => (token === undefined ? [] : [token]));
  return {
    type: "TemplateProcessing",
    single: [...special(before), { Sequence: { id: "A", type_id: 0 } }, ...special(after)],
    special_tokens: Object.fromEntries(tokens.map(({ id, text }) => [text, { id: text, ids: [id], tokens: [text] }])),
  };
}
