/**
 * Text to token ids and back, from the parsed files of a Hugging Face tokenizer folder. BPE runs on our own encoders,
 * other kinds on @huggingface/tokenizers. Source: tokenizers library, tokenizer.json. Reads no files and knows no
 * request.
 */

import { tryCreateByteLevelEncoder } from "./byte-level.ts";
import { IdList } from "./byte-level-bpe.ts";
import { tryCreateCharacterEncoder } from "./character-bpe.ts";
import { type Detokenizer, IncrementalDetokenizer, WholeDetokenizer } from "./detokenizer.ts";
import { type Pieces, tryParsePieces } from "./detokenizer-pieces.ts";
import { type PairItem, parsePairTemplate } from "./pair-template.ts";
import { type PostProcessor, parsePostProcessor } from "./post-processor.ts";
import { type EncodeSteps, type SectionCodec, SectionEncoder } from "./section-encoder.ts";
import { chatTemplateOf, expectRecord, parseAddedTokens, parseVocabulary, tokenText } from "./tokenizer-json.ts";
import { LibraryTokenizer } from "./tokenizer-library.ts";

/** Parsed JSON of the tokenizer files; a missing file is `{}`. */
export interface TokenizerFiles {
  readonly tokenizer: unknown;
  readonly config: unknown;
  /** Text of chat_template.jinja, which overrides the one in the configuration. */
  readonly chatTemplate?: string | undefined;
  /** Encodes what is between added tokens, for kinds that tokenizer.json does not describe. */
  readonly codec?: SectionCodec | undefined;
}

export interface EncodeOptions {
  /** Adds the tokenizer's special tokens around the text, unless the text already begins with them. */
  readonly addSpecialTokens: boolean;
}

export interface DecodeOptions {
  readonly skipSpecialTokens: boolean;
  /** Special tokens that stay in the text all the same. */
  readonly keptIds?: ReadonlySet<number>;
}

/** A tokenizer ready for use. Made by `createTokenizer`. */
interface TokenizerParts {
  readonly tokens: readonly (string | undefined)[];
  readonly ids: ReadonlyMap<string, number>;
  readonly specialIds: ReadonlySet<number>;
  readonly frame: PostProcessor;
  readonly pairTemplate: readonly PairItem[];
  readonly encoder: EncodeSteps;
  readonly library: LibraryTokenizer;
  readonly pieces: Pieces | undefined;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  readonly padId: number | undefined;
  readonly chatTemplate: string | undefined;
}

/** @throws Error with the location in the file when the files are not those of a tokenizer */
export function createTokenizer(files: TokenizerFiles): Tokenizer {
  const json = expectRecord(files.tokenizer, "tokenizer.json");
  const config = expectRecord(files.config, "tokenizer_config.json");
  const addedTokens = parseAddedTokens(json.added_tokens);
  const vocabulary = parseVocabulary(expectRecord(json.model, "model").vocab);
  const ids = new Map(vocabulary);
  for (const { content, id } of addedTokens) ids.set(content, id);
  const tokens: (string | undefined)[] = [];
  for (const [token, id] of ids) tokens[id] = token;
  const library = new LibraryTokenizer(json, config);
  const idOf = (name: string): number | undefined => ids.get(tokenText(config, name) ?? "");
  const encoder =
    (files.codec === undefined ? undefined : new SectionEncoder(files.codec, addedTokens)) ??
    tryCreateByteLevelEncoder(json, vocabulary, addedTokens) ??
    tryCreateCharacterEncoder(json, vocabulary, addedTokens) ??
    library;
  const pieces = tryParsePieces(json.decoder, tokens);
  if (encoder === library || pieces === undefined) library.expectUsable(tokens.length);
  return new Tokenizer({
    tokens,
    ids,
    specialIds: new Set(addedTokens.filter(({ isSpecial }) => isSpecial).map(({ id }) => id)),
    frame: parsePostProcessor(json.post_processor),
    pairTemplate: parsePairTemplate(json.post_processor),
    encoder,
    library,
    pieces,
    bosId: idOf("bos_token"),
    eosId: idOf("eos_token"),
    padId: idOf("pad_token") ?? idOf("eos_token"),
    chatTemplate: files.chatTemplate ?? chatTemplateOf(config),
  });
}

export class Tokenizer {
  readonly #parts: TokenizerParts;
  /** Largest id plus one. */
  readonly vocabularySize: number;
  readonly bosId: number | undefined;
  readonly eosId: number | undefined;
  /** The end token when the model has no padding token. */
  readonly padId: number | undefined;
  readonly specialIds: ReadonlySet<number>;
  readonly chatTemplate: string | undefined;

  constructor(parts: TokenizerParts) {
    this.#parts = parts;
    this.vocabularySize = parts.tokens.length;
    this.bosId = parts.bosId;
    this.eosId = parts.eosId;
    this.padId = parts.padId;
    this.specialIds = parts.specialIds;
    this.chatTemplate = parts.chatTemplate;
  }

  idOf(token: string): number | undefined {
    return this.#parts.ids.get(token);
  }

  tokenOf(id: number): string | undefined {
    return this.#parts.tokens[id];
  }

  encode(text: string, options: EncodeOptions): Int32Array<ArrayBuffer> {
    const steps = this.encodeSteps(text, options);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
    }
  }

  /** Two texts with the tokenizer's special tokens around and between them, and for each token the segment it is in. */
  encodePair(first: string, second: string): { readonly ids: Int32Array; readonly segments: Int32Array } {
    const texts = [first, second].map((text) => this.encode(text, { addSpecialTokens: false }));
    const parts = this.#parts.pairTemplate.map(({ ids, segment }) => {
      const tokens = typeof ids === "number" ? [...(texts[ids] ?? [])] : ids;
      return { tokens, segments: tokens.map(() => segment) };
    });
    return {
      ids: Int32Array.from(parts.flatMap(({ tokens }) => tokens)),
      segments: Int32Array.from(parts.flatMap(({ segments }) => segments)),
    };
  }

  /** `encode` in steps of a few milliseconds; the return value at the end is the result. */
  *encodeSteps(text: string, options: EncodeOptions): Generator<undefined, Int32Array<ArrayBuffer>, undefined> {
    const out = new IdList((text.length >> 1) + 16);
    yield* this.#parts.encoder.encodeSteps(text, out);
    return options.addSpecialTokens ? this.#framed(out.values()) : out.values();
  }

  decode(ids: ArrayLike<number>, options: DecodeOptions): string {
    const detokenizer = this.createDetokenizer(options);
    return detokenizer.push(ids) + detokenizer.finish();
  }

  /** Bytes that a token adds inside a text; undefined when the decoder looks across tokens, or there is no such token. */
  bytesOf(id: number): Uint8Array | undefined {
    return this.#parts.pieces?.bytesOf(id, false);
  }

  createDetokenizer(options: DecodeOptions): Detokenizer {
    const { pieces, library, specialIds } = this.#parts;
    const skipped = options.skipSpecialTokens ? without(specialIds, options.keptIds) : undefined;
    if (pieces !== undefined) return new IncrementalDetokenizer(pieces, skipped);
    return new WholeDetokenizer((ids) => library.decode(ids), skipped);
  }

  /**
   * A prompt rendered from a chat template already begins with the start token. A second one degrades the model, so it
   * is not added again.
   */
  #framed(ids: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
    const { before, after } = this.#parts.frame;
    const hasStart = before.length > 0 && before.every((id, index) => ids[index] === id);
    return Int32Array.from([...(hasStart ? [] : before), ...ids, ...after]);
  }
}

function without(ids: ReadonlySet<number>, kept: ReadonlySet<number> | undefined): ReadonlySet<number> {
  return kept === undefined || kept.size === 0 ? ids : new Set([...ids].filter((id) => !kept.has(id)));
}
