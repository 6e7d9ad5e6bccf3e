/**
 * The encoder of byte-level BPE tokenizers: added tokens, normalisation, words, merges. Works in steps of a few
 * milliseconds, so that a huge prompt shares the event loop. Adds no special tokens of its own accord.
 */
import { ByteLevelBpe, type IdList } from "./byte-level-bpe.ts";
import { AddedTokenSplitter } from "./tokenizer-added-tokens.ts";
import { type AddedToken, isRecord, parseMerges } from "./tokenizer-json.ts";
import { splitNext, tryParseWordSplit, type WordSplit } from "./tokenizer-split.ts";

/** Appends the ids of a text; each `yield` is a chance to let others run. */
export interface EncodeSteps {
  encodeSteps(text: string, out: IdList): Generator<undefined, void, undefined>;
}

/** Characters between two pauses: 2 to 10 ms of work. */
const CHARS_PER_STEP = 32_768;

/** Undefined when a section of the file asks for more than this encoder does. */
export function tryCreateByteLevelEncoder(
  json: Readonly<Record<string, unknown>>,
  vocabulary: ReadonlyMap<string, number>,
  addedTokens: readonly AddedToken[],
): EncodeSteps | undefined {
  const { model, normalizer } = json;
  const split = tryParseWordSplit(json.pre_tokenizer);
  if (split === undefined || !isRecord(model) || !isPlainBpe(model)) return undefined;
  const isNfc = isRecord(normalizer) && normalizer.type === "NFC";
  const isNormalizable = isNfc || normalizer === null || normalizer === undefined;
  if (!isNormalizable || addedTokens.some(({ content }) => isNfc && content.normalize("NFC") !== content))
    return undefined;
  const bpe = new ByteLevelBpe({
    vocabulary,
    merges: parseMerges(model.merges),
    ignoreMerges: model.ignore_merges === true,
  });
  return new ByteLevelEncoder(bpe, split, addedTokens, isNfc);
}

class ByteLevelEncoder implements EncodeSteps {
  readonly #bpe: ByteLevelBpe;
  readonly #split: WordSplit;
  readonly #rawTokens: AddedTokenSplitter;
  readonly #normalizedTokens: AddedTokenSplitter;
  readonly #isNfc: boolean;

  constructor(bpe: ByteLevelBpe, split: WordSplit, addedTokens: readonly AddedToken[], isNfc: boolean) {
    this.#bpe = bpe;
    this.#split = split;
    this.#isNfc = isNfc;
    this.#rawTokens = new AddedTokenSplitter(addedTokens.filter(({ isNormalized }) => !isNormalized));
    this.#normalizedTokens = new AddedTokenSplitter(addedTokens.filter(({ isNormalized }) => isNormalized));
  }

  *encodeSteps(text: string, out: IdList): Generator<undefined, void, undefined> {
    for (const raw of this.#rawTokens.split(text)) {
      if (typeof raw !== "string") {
        out.push(raw.id);
        continue;
      }
      const normalized = this.#isNfc ? raw.normalize("NFC") : raw;
      for (const section of this.#normalizedTokens.split(normalized)) {
        if (typeof section === "string") yield* this.#encodeSection(section, out);
        else out.push(section.id);
      }
    }
  }

  *#encodeSection(section: string, out: IdList): Generator<undefined, void, undefined> {
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

/** BPE whose symbols are bytes and nothing else. */
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
