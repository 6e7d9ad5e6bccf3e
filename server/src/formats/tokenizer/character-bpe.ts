/**
 * The encoder of BPE tokenizers converted from SentencePiece (Llama 2, Mistral, Gemma). Symbols are characters, spaces
 * become U+2581, and unknown characters become bytes. Text between added tokens is one word. Source: SentencePiece,
 * tokenizers library.
 */

import { isObject } from "../../core/json-object.ts";
import type { IdList } from "./byte-level-bpe.ts";
import { createPairTable, type PairTable, WordMerge } from "./byte-level-merge.ts";
import { type EncodeSteps, type Pauses, type SectionCodec, SectionEncoder } from "./section-encoder.ts";
import { type AddedToken, parseMerges } from "./tokenizer-json.ts";

type Json = Readonly<Record<string, unknown>>;
type TextRule = (text: string) => string;
type PrefixRule = (text: string, isFirst: boolean) => string;

/** Merge candidates between two pauses: about 5 ms. */
const CANDIDATES_PER_STEP = 32_768;

/** Undefined when a section of the file needs an unsupported feature. */
export function tryCreateCharacterEncoder(
  json: Json,
  vocabulary: ReadonlyMap<string, number>,
  addedTokens: readonly AddedToken[],
): EncodeSteps | undefined {
  const { model } = json;
  if (!isObject(model) || !isByteFallbackBpe(model)) return undefined;
  const byteIds = tryByteIds(vocabulary);
  const normalize = tryParseNormalizer(json.normalizer ?? undefined);
  const prefix = tryParsePrefix(json.pre_tokenizer ?? undefined);
  if (byteIds === undefined || normalize === undefined || prefix === undefined) return undefined;
  // Tokens matched after normalisation would need normalising as well: rare enough for the library.
  const isRenamed = ({ isNormalized, content }: AddedToken): boolean => isNormalized && normalize(content) !== content;
  if (addedTokens.some(isRenamed)) return undefined;
  const pairs = createPairTable(vocabulary, parseMerges(model.merges));
  return new SectionEncoder(new CharacterCodec({ vocabulary, byteIds, pairs, normalize, prefix }), addedTokens);
}

interface CodecParts {
  readonly vocabulary: ReadonlyMap<string, number>;
  readonly byteIds: readonly number[];
  readonly pairs: PairTable;
  readonly normalize: TextRule;
  readonly prefix: PrefixRule;
}

class CharacterCodec implements SectionCodec {
  readonly #parts: CodecParts;
  readonly #encoder = new TextEncoder();

  constructor(parts: CodecParts) {
    this.#parts = parts;
  }

  normalize(section: string): string {
    return this.#parts.normalize(section);
  }

  *encodeSection(section: string, isFirst: boolean, out: IdList): Pauses {
    const text = this.#parts.prefix(section, isFirst);
    const merge = new WordMerge(this.#parts.pairs);
    const symbols = this.#symbols(text);
    const ids = merge.reserve(symbols.length);
    ids.set(symbols);
    merge.start(symbols.length);
    while (!merge.run(CANDIDATES_PER_STEP)) yield;
    out.append(ids.subarray(0, merge.finish()));
  }

  #symbols(text: string): Int32Array {
    const { vocabulary, byteIds } = this.#parts;
    const symbols = new Int32Array(text.length * 3); // a UTF-16 unit is at most three bytes
    let count = 0;
    for (const char of text) {
      const id = vocabulary.get(char);
      if (id !== undefined) symbols[count++] = id;
      else for (const byte of this.#encoder.encode(char)) symbols[count++] = byteIds[byte] ?? 0;
    }
    return symbols.subarray(0, count);
  }
}

function isByteFallbackBpe(model: Json): boolean {
  const isUnset = (value: unknown): boolean => value === undefined || value === null || value === "" || value === false;
  return (
    model.type === "BPE" &&
    model.byte_fallback === true &&
    isUnset(model.dropout === 0 ? null : model.dropout) &&
    isUnset(model.continuing_subword_prefix) &&
    isUnset(model.end_of_word_suffix) &&
    isUnset(model.ignore_merges)
  );
}

function tryByteIds(vocabulary: ReadonlyMap<string, number>): readonly number[] | undefined {
  const ids: number[] = [];
  for (let byte = 0; byte < 256; byte++) {
    const id = vocabulary.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
    if (id === undefined) return undefined;
    ids.push(id);
  }
  return ids;
}

function tryParseNormalizer(section: unknown): TextRule | undefined {
  if (section === undefined) return (text) => text;
  if (!isObject(section)) return undefined;
  const { type, prepend, pattern, content, normalizers } = section;
  if (type === "Prepend" && typeof prepend === "string") return (text) => prepend + text;
  if (type === "Replace" && isObject(pattern) && typeof pattern.String === "string" && typeof content === "string") {
    const from = pattern.String;
    return (text) => text.replaceAll(from, content);
  }
  if (type !== "Sequence" || !Array.isArray(normalizers)) return undefined;
  const rules = normalizers.map(tryParseNormalizer);
  if (!rules.every((rule) => rule !== undefined)) return undefined;
  return (text) => rules.reduce((changed, rule) => rule(changed), text);
}

/** `Metaspace` without splitting at spaces, or no pre-tokenizer. */
function tryParsePrefix(section: unknown): PrefixRule | undefined {
  if (section === undefined) return (text) => text;
  if (!isObject(section) || section.type !== "Metaspace" || section.split !== false) return undefined;
  const { replacement, prepend_scheme: scheme = "always" } = section;
  if (typeof replacement !== "string") return undefined;
  return (text, isFirst) => {
    const marked = text.replaceAll(" ", replacement);
    const isPrefixed = scheme === "always" || (scheme === "first" && isFirst);
    return isPrefixed && !marked.startsWith(replacement) ? replacement + marked : marked;
  };
}
