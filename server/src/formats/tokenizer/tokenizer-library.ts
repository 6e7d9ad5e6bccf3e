/**
 * The general encoder and decoder: @huggingface/tokenizers behind our interfaces, for tokenizers without an encoder of
 * our own. Source: tokenizers library documentation.
 */
import * as huggingFace from "@huggingface/tokenizers";
import { isObject } from "../../core/json-object.ts";
import { MAX_UNPAUSED_TEXT_CHARS } from "../../core/limits.ts";
import { invalidArgument } from "../../core/server-error.ts";
import { IdList } from "./byte-level-bpe.ts";
import { boundedPattern } from "./pattern/linear-regexp.ts";
import type { EncodeSteps, Pauses } from "./section-encoder.ts";
import { expectTokenId } from "./tokenizer-json.ts";

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

const FILE = "tokenizer.json";
/** Sections that a file may leave out; the library wants them there. */
const ABSENT = { normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, added_tokens: [] };
/** A word, a number, marks, white space and letters of other scripts. */
const PROBE = "Word 12, n't\n \u00e9\u4e16";
const MAX_PROBED_IDS = 64;
/** Parts of one section: a longer list is a vocabulary. */
const MAX_PARTS = 256;

/** The library does not check the file: what is missing fails with an error of the engine, when it is used. */
function usable<Result>(use: () => Result): Result {
  try {
    return use();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`${FILE}: the tokenizer cannot be used: ${reason}`, { cause });
  }
}

/** Parts are functions with fields; none lies deeper. */
const MAX_PART_DEPTH = 8;

/** Puts bounded patterns into the place of those that parts of the library have made. */
function boundPatterns(part: object, depth = 0, seen = new Set<object>()): void {
  if (depth > MAX_PART_DEPTH || seen.has(part)) return;
  seen.add(part);
  const fields = part as Record<string, unknown>;
  for (const name of Object.keys(part)) {
    const value = fields[name];
    if (value instanceof RegExp) fields[name] = boundedPattern(value);
    else if (isPart(value)) boundPatterns(value, depth + 1, seen);
  }
}

/** Vocabularies are maps, and lists of texts. */
function isPart(value: unknown): value is object {
  if (Array.isArray(value)) return typeof value[0] !== "string" && value.length < MAX_PARTS;
  return typeof value === "function" || (isObject(value) && !(value instanceof Map));
}

/** Translates a `pattern` from Oniguruma syntax to JavaScript. Undefined when it has no counterpart. */
export function translatePattern(pattern: unknown): RegExp | undefined {
  const { Regex, String: text } = isObject(pattern) ? pattern : {};
  if (typeof Regex !== "string" && (Regex !== undefined || typeof text !== "string")) return undefined;
  const section = { type: "Split", pattern, behavior: "Isolated", invert: true };
  return usable(() => {
    const made = new library.SplitPreTokenizer(section).pattern;
    return made === null ? undefined : boundedPattern(made);
  });
}

export class LibraryTokenizer implements EncodeSteps {
  readonly #json: object;
  readonly #config: object;
  #tokenizer: GeneralTokenizer | undefined;

  constructor(json: object, config: object) {
    this.#json = json;
    this.#config = config;
  }

  *encodeSteps(text: string, out: IdList): Pauses {
    if (text.length > MAX_UNPAUSED_TEXT_CHARS) {
      throw invalidArgument(
        `text of ${text.length} characters is longer than the ${MAX_UNPAUSED_TEXT_CHARS} that this kind of tokenizer takes`,
      );
    }
    const { ids } = usable(() => this.#library().encode(text, { add_special_tokens: false }));
    for (const id of ids) {
      // The library gives undefined for a character that is neither in the vocabulary nor covered by an unknown token.
      if (id !== undefined) out.push(expectTokenId(id, `${FILE}: a token of the text`));
    }
  }

  decode(ids: number[]): string {
    const library = usable(() => this.#library());
    const known = ids.filter((id) => library.id_to_token(id) !== undefined);
    if (known.length === 0) return "";
    const text: unknown = usable(() => library.decode(known, { clean_up_tokenization_spaces: false }));
    if (typeof text !== "string") throw new Error(`${FILE}: decoder: expected one that gives a text`);
    return text;
  }

  /** Finds most faults of the file when it is loaded, and not at the first request. @throws Error naming the file */
  expectUsable(vocabularySize: number): void {
    this.encodeSteps(PROBE, new IdList(PROBE.length)).next();
    this.decode(Array.from({ length: Math.min(vocabularySize, MAX_PROBED_IDS) }, (_, id) => id));
  }

  /** Built on first use: it indexes vocabulary and merges again. */
  #library(): GeneralTokenizer {
    if (this.#tokenizer === undefined) {
      this.#tokenizer = new library.Tokenizer({ ...ABSENT, ...this.#json }, this.#config);
      boundPatterns(this.#tokenizer);
    }
    return this.#tokenizer;
  }
}
