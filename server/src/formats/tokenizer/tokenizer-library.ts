/**
 * The general encoder and decoder: @huggingface/tokenizers behind our interfaces, for tokenizers without an encoder of
 * our own. Source: tokenizers library documentation.
 */
import * as huggingFace from "@huggingface/tokenizers";
import { MAX_UNPAUSED_TEXT_CHARS } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { IdList } from "./byte-level-bpe.ts";
import type { EncodeSteps, Pauses } from "./section-encoder.ts";

/** The part of the library that we use; its own declarations do not resolve under `nodenext`. */
interface Library {
  readonly Tokenizer: new (json: object, config: object) => GeneralTokenizer;
  readonly SplitPreTokenizer: new (section: object) => { readonly pattern: RegExp | null };
}

interface GeneralTokenizer {
  encode(text: string, options: { add_special_tokens: boolean }): { readonly ids: readonly unknown[] };
  decode(ids: readonly number[], options: { clean_up_tokenization_spaces: boolean }): string;
  id_to_token(id: number): string | undefined;
}

const library = huggingFace as unknown as Library;

/** Translates a `pattern` from Oniguruma syntax to JavaScript. Undefined when it has no counterpart. */
export function translatePattern(pattern: unknown): RegExp | undefined {
  const section = { type: "Split", pattern, behavior: "Isolated", invert: true };
  return new library.SplitPreTokenizer(section).pattern ?? undefined;
}

export class LibraryTokenizer implements EncodeSteps {
  readonly #json: object;
  readonly #config: object;
  #tokenizer: GeneralTokenizer | undefined;

  constructor(json: object, config: object) {
    this.#json = json;
    this.#config = config;
  }

  // biome-ignore lint/correctness/useYield: one step is all the library offers
  *encodeSteps(text: string, out: IdList): Pauses {
    if (text.length > MAX_UNPAUSED_TEXT_CHARS) {
      throw invalidArgument(
        `text of ${text.length} characters is longer than the ${MAX_UNPAUSED_TEXT_CHARS} that this kind of tokenizer takes`,
      );
    }
    for (const id of this.#library().encode(text, { add_special_tokens: false }).ids) {
      // The library gives undefined for a character that is neither in the vocabulary nor covered by an unknown token.
      if (typeof id === "number") out.push(id);
    }
  }

  decode(ids: number[]): string {
    const known = ids.filter((id) => this.#library().id_to_token(id) !== undefined);
    return known.length === 0 ? "" : this.#library().decode(known, { clean_up_tokenization_spaces: false });
  }

  /** Built on first use: it indexes vocabulary and merges again. */
  #library(): GeneralTokenizer {
    this.#tokenizer ??= new library.Tokenizer(this.#json, this.#config);
    return this.#tokenizer;
  }
}
