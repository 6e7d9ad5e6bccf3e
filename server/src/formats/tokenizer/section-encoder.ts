/**
 * Encodes a text section by section: added tokens are cut out, the rest is normalised and encoded. Source: tokenizers
 * library, `TokenizerImpl::encode`. Knows no vocabulary.
 */

import { AddedTokenSplitter } from "./added-tokens.ts";
import type { IdList } from "./byte-level-bpe.ts";
import type { AddedToken } from "./tokenizer-json.ts";

/** Work that yields every few milliseconds, so that others can run. */
export type Pauses = Generator<undefined, void, undefined>;

/** Appends the ids of a text. */
export interface EncodeSteps {
  encodeSteps(text: string, out: IdList): Pauses;
}

/** The parts that differ between kinds of tokenizers. */
export interface SectionCodec {
  normalize(section: string): string;
  /** `isFirst`: the section is the start of the whole text. */
  encodeSection(section: string, isFirst: boolean, out: IdList): Pauses;
}

export class SectionEncoder implements EncodeSteps {
  readonly #codec: SectionCodec;
  readonly #rawTokens: AddedTokenSplitter;
  readonly #normalizedTokens: AddedTokenSplitter;

  constructor(codec: SectionCodec, addedTokens: readonly AddedToken[]) {
    this.#codec = codec;
    this.#rawTokens = new AddedTokenSplitter(addedTokens.filter(({ isNormalized }) => !isNormalized));
    this.#normalizedTokens = new AddedTokenSplitter(addedTokens.filter(({ isNormalized }) => isNormalized));
  }

  *encodeSteps(text: string, out: IdList): Pauses {
    let isFirst = true;
    for (const raw of this.#rawTokens.split(text)) {
      if (typeof raw === "string") yield* this.#encodeRaw(raw, isFirst, out);
      else out.push(raw.id);
      isFirst = false;
    }
  }

  *#encodeRaw(raw: string, isFirstRaw: boolean, out: IdList): Pauses {
    let isFirst = isFirstRaw;
    for (const section of this.#normalizedTokens.split(this.#codec.normalize(raw))) {
      if (typeof section === "string") yield* this.#codec.encodeSection(section, isFirst, out);
      else out.push(section.id);
      isFirst = false;
    }
  }
}
