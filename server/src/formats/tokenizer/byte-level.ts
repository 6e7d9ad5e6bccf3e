/**
 * The encoder of byte-level BPE tokenizers: added tokens, normalisation, pre-tokenization, merges. Source: tokenizers
 * library, tokenizer.json. Yields every few milliseconds, so long prompts share the event loop. Adds no special tokens.
 */

import { isObject } from "../../core/json-object.ts";
import { ByteLevelBpe, type IdList } from "./byte-level-bpe.ts";
import { type PreTokenizer, splitNext, tryParsePreTokenizer } from "./pre-tokenizer.ts";
import { type EncodeSteps, type Pauses, type SectionCodec, SectionEncoder } from "./section-encoder.ts";
import { type AddedToken, parseMerges } from "./tokenizer-json.ts";

/** Characters between two pauses: 2 to 10 ms of work. */
const CHARS_PER_STEP = 32_768;

/** Undefined when a section of the file needs an unsupported feature. */
export function tryCreateByteLevelEncoder(
  json: Readonly<Record<string, unknown>>,
  vocabulary: ReadonlyMap<string, number>,
  addedTokens: readonly AddedToken[],
): EncodeSteps | undefined {
  const { model, normalizer } = json;
  const split = tryParsePreTokenizer(json.pre_tokenizer);
  if (split === undefined || !isObject(model) || !isPlainBpe(model)) return undefined;
  const isNfc = isObject(normalizer) && normalizer.type === "NFC";
  const isNormalizable = isNfc || normalizer === null || normalizer === undefined;
  if (!isNormalizable || addedTokens.some(({ content }) => isNfc && content.normalize("NFC") !== content))
    return undefined;
  const bpe = new ByteLevelBpe({
    vocabulary,
    merges: parseMerges(model.merges),
    ignoreMerges: model.ignore_merges === true,
  });
  return new SectionEncoder(new ByteLevelCodec(bpe, split, isNfc), addedTokens);
}

class ByteLevelCodec implements SectionCodec {
  readonly #bpe: ByteLevelBpe;
  readonly #split: PreTokenizer;
  readonly #isNfc: boolean;

  constructor(bpe: ByteLevelBpe, split: PreTokenizer, isNfc: boolean) {
    this.#bpe = bpe;
    this.#split = split;
    this.#isNfc = isNfc;
  }

  normalize(section: string): string {
    return this.#isNfc ? section.normalize("NFC") : section;
  }

  *encodeSection(section: string, _isFirst: boolean, out: IdList): Pauses {
    const { passes, addsPrefixSpace } = this.#split;
    const text = addsPrefixSpace && !section.startsWith(" ") ? ` ${section}` : section;
    let position = 0;
    let pauseAt = CHARS_PER_STEP;
    const words: string[] = [];
    while (position < text.length) {
      words.length = 0;
      position = splitNext(words, text, passes, 0, position);
      for (const word of words) {
        if (!this.#bpe.tryEncodeShort(word, out)) yield* this.#bpe.encodeLong(word, out);
      }
      if (position < pauseAt) continue;
      pauseAt = position + CHARS_PER_STEP;
      yield;
    }
  }
}

/** A BPE model whose symbols are bytes only. */
function isPlainBpe(model: Readonly<Record<string, unknown>>): boolean {
  const isUnset = (value: unknown): boolean => value === undefined || value === null || value === "" || value === false;
  return (
    (model.type === "BPE" || (model.type === undefined && model.merges !== undefined)) &&
    isUnset(model.dropout === 0 ? null : model.dropout) &&
    isUnset(model.continuing_subword_prefix) &&
    isUnset(model.end_of_word_suffix) &&
    isUnset(model.byte_fallback)
  );
}
