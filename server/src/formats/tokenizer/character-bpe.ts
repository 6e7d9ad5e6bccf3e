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
  const byteIds = byteTokens(vocabulary);
  const normalize = tryParseNormalizer(json.normalizer ?? undefined);
  const prefix = tryParsePrefix(json.pre_tokenizer ?? undefined);
  if (byteIds.includes(undefined) || normalize === undefined || prefix === undefined) return undefined;
  // Tokens matched after normalisation would need normalising as well: rare enough for the library.
  const isRenamed = ({ isNormalized, content }: AddedToken): boolean => isNormalized && normalize(content) !== content;
  if (addedTokens.some(isRenamed)) return undefined;
  const pairs = createPairTable(vocabulary, parseMerges(model.merges));
  return new SectionEncoder(new CharacterCodec({ vocabulary, byteIds, pairs, normalize, prefix }), addedTokens);
}

export interface CharacterRules {
  readonly vocabulary: ReadonlyMap<string, number>;
  /** Tokens of the bytes of an unknown character; bytes without one are left out. */
  readonly byteIds: readonly (number | undefined)[];
  readonly pairs: PairTable;
  readonly normalize: TextRule;
  readonly prefix: PrefixRule;
  /** Words that are merged alone; undefined: the text is one. */
  readonly words?: RegExp;
  /** Words of this form are taken whole if they are tokens. */
  readonly wholeWords?: RegExp;
}

export class CharacterCodec implements SectionCodec {
  readonly #parts: CharacterRules;
  readonly #encoder = new TextEncoder();

  constructor(parts: CharacterRules) {
    this.#parts = parts;
  }

  normalize(section: string): string {
    return this.#parts.normalize(section);
  }

  *encodeSection(section: string, isFirst: boolean, out: IdList): Pauses {
    const { prefix, words } = this.#parts;
    const text = prefix(section, isFirst);
    if (words === undefined) {
      yield* this.#encodeWord(text, out);
      return;
    }
    for (const [word] of text.matchAll(words)) {
      const whole = this.#parts.wholeWords?.test(word) ? this.#parts.vocabulary.get(word) : undefined;
      if (whole === undefined) yield* this.#encodeWord(word, out);
      else out.push(whole);
    }
  }

  *#encodeWord(text: string, out: IdList): Pauses {
    const merge = new WordMerge(this.#parts.pairs);
    const symbols = this.#symbols(text);
    const ids = merge.reserve(symbols.length);
    ids.set(symbols);
    merge.start(symbols.length);
    while (!merge.run(CANDIDATES_PER_STEP)) yield;
    out.append(ids.subarray(0, merge.finish()));
  }

  #symbols(text: string): Int32Array {
    const { vocabulary } = this.#parts;
    const symbols = new Int32Array(text.length * 3); // a UTF-16 unit is at most three bytes
    let count = 0;
    for (const char of text) {
      const id = vocabulary.get(char);
      if (id !== undefined) symbols[count++] = id;
      else count = this.#putBytes(char, symbols, count);
    }
    return symbols.subarray(0, count);
  }

  #putBytes(char: string, symbols: Int32Array, from: number): number {
    let count = from;
    for (const byte of this.#encoder.encode(char)) {
      const id = this.#parts.byteIds[byte];
      if (id !== undefined) symbols[count++] = id;
    }
    return count;
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

/** The token of each byte, as SentencePiece names them. */
export function byteTokens(vocabulary: ReadonlyMap<string, number>): readonly (number | undefined)[] {
  return Array.from({ length: 256 }, (_, byte) =>
    vocabulary.get(`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`),
  );
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
