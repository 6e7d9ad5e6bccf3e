/**
 * Reads and checks the parts of tokenizer.json and tokenizer_config.json that the server uses. Sources: tokenizers
 * library and transformers documentation. Knows no encoding.
 */

import { isObject, shownValue } from "../../core/json-object.ts";
/** A token that is matched in text before encoding. */
export interface AddedToken {
  readonly id: number;
  readonly content: string;
  /** Omitted from text when special tokens are skipped. */
  readonly isSpecial: boolean;
  /** Matched in the normalised text instead of the raw text. */
  readonly isNormalized: boolean;
  readonly isSingleWord: boolean;
  readonly stripsLeft: boolean;
  readonly stripsRight: boolean;
}

/** Token ids are array indices: a file with a larger id is not a tokenizer. */
const MAX_TOKEN_ID = 2 ** 24;

export function expectRecord(value: unknown, at: string): Record<string, unknown> {
  if (!isObject(value)) throw new Error(`${at}: expected an object, got ${shownValue(value)}`);
  return value;
}

export function expectTokenId(value: unknown, at: string): number {
  if (typeof value !== "number" || !Number.isInteger(value) || value < 0 || value > MAX_TOKEN_ID) {
    throw new Error(`${at}: expected a token id between 0 and ${MAX_TOKEN_ID}, got ${shownValue(value)}`);
  }
  return value;
}

export function parseAddedTokens(value: unknown): readonly AddedToken[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Error(`added_tokens: expected a list, got ${shownValue(value)}`);
  return value.map((item, index) => {
    const at = `added_tokens[${index}]`;
    const token = expectRecord(item, at);
    const content = token.content;
    if (typeof content !== "string" || content === "") throw new Error(`${at}.content: expected a text`);
    const isSpecial = token.special === true;
    return {
      id: expectTokenId(token.id, `${at}.id`),
      content,
      isSpecial,
      isNormalized: typeof token.normalized === "boolean" ? token.normalized : !isSpecial,
      isSingleWord: token.single_word === true,
      stripsLeft: token.lstrip === true,
      stripsRight: token.rstrip === true,
    };
  });
}

/** Token text to id: an object for most models, a list of [token, score] for Unigram. */
export function parseVocabulary(value: unknown): ReadonlyMap<string, number> {
  const vocabulary = readVocabulary(value);
  if (vocabulary.size === 0) throw new Error("model.vocab: expected tokens, got none");
  return vocabulary;
}

function readVocabulary(value: unknown): ReadonlyMap<string, number> {
  if (Array.isArray(value)) {
    return new Map(value.map((entry, index) => [tokenOfEntry(entry, index), index] as const));
  }
  const vocabulary = new Map<string, number>();
  for (const [token, id] of Object.entries(expectRecord(value, "model.vocab"))) {
    vocabulary.set(token, expectTokenId(id, `model.vocab["${token}"]`));
  }
  return vocabulary;
}

/** Merges are "left right" or [left, right]. */
export function parseMerges(value: unknown): readonly (readonly [string, string])[] {
  if (!Array.isArray(value)) throw new Error(`model.merges: expected a list, got ${shownValue(value)}`);
  return value.map((entry, index) => {
    const pair: unknown = typeof entry === "string" ? splitMerge(entry) : entry;
    if (Array.isArray(pair) && typeof pair[0] === "string" && typeof pair[1] === "string") return [pair[0], pair[1]];
    throw new Error(`model.merges[${index}]: expected two tokens, got ${shownValue(entry)}`);
  });
}

/** Text of a named special token such as `bos_token`: a string or an added token. */
export function tokenText(config: Record<string, unknown>, name: string): string | undefined {
  const value = config[name];
  const text = isObject(value) ? value.content : value;
  return typeof text === "string" ? text : undefined;
}

/** `chat_template` of tokenizer_config.json: one template, or several by name, where "default" counts. */
export function chatTemplateOf(config: Record<string, unknown>): string | undefined {
  const value = config.chat_template;
  if (typeof value === "string") return value;
  if (!Array.isArray(value)) return undefined;
  const named = value.filter(isObject);
  const template = (named.find(({ name }) => name === "default") ?? named[0])?.template;
  return typeof template === "string" ? template : undefined;
}

function splitMerge(text: string): readonly string[] {
  const space = text.indexOf(" ");
  return space < 0 ? [text] : [text.slice(0, space), text.slice(space + 1)];
}

function tokenOfEntry(entry: unknown, index: number): string {
  const token: unknown = Array.isArray(entry) ? entry[0] : undefined;
  if (typeof token !== "string")
    throw new Error(`model.vocab[${index}]: expected [token, score], got ${shownValue(entry)}`);
  return token;
}
