/**
 * The bytes that each token id adds to the text, by the `decoder` section of tokenizer.json. Bytes, because a character
 * may span several tokens. Source: tokenizers library, `decoders`. Knows no stream and no state.
 */

import { isObject } from "../../core/json-object.ts";
import { tryBytesOfToken } from "./byte-level-alphabet.ts";

export interface Pieces {
  /** Bytes of one token; the first of a text may lose its leading space. Undefined: no such token. */
  bytesOf(id: number, isFirst: boolean): Uint8Array | undefined;
  /** Removed from the start of the whole text, at most `count` times. */
  readonly leading: { readonly char: string; readonly count: number };
}

type TokenToText = (token: string, isFirst: boolean) => string | Uint8Array;
type Rule = Readonly<Record<string, unknown>>;

const NO_LEADING: Pieces["leading"] = { char: "", count: 0 };
const BYTE_TOKEN = /^<0x([0-9A-Fa-f]{2})>$/;

/** Undefined when the decoder looks at more than one token at a time: such text exists only as a whole. */
export function tryParsePieces(decoder: unknown, tokens: readonly (string | undefined)[]): Pieces | undefined {
  const rules = flatten(decoder);
  const [only] = rules;
  if (only === undefined) return undefined;
  if (rules.length === 1) {
    const convert = tryParseSingle(only);
    if (convert !== undefined) return new TokenPieces(tokens, convert, NO_LEADING);
  }
  return tryParseReplacing(rules, tokens);
}

function tryParseSingle(rule: Rule): TokenToText | undefined {
  switch (rule.type) {
    case "ByteLevel":
      // A token with a character outside the alphabet was added by hand: it stands for itself.
      return (token) => tryBytesOfToken(token) ?? token;
    case "Metaspace":
      return metaspace(rule);
    case "WordPiece":
      return wordPiece(rule);
    default:
      return undefined;
  }
}

function metaspace(rule: Rule): TokenToText {
  const replacement = typeof rule.replacement === "string" ? rule.replacement : "\u2581";
  const dropsFirst = rule.prepend_scheme !== "never" && rule.add_prefix_space !== false;
  return (token, isFirst) => {
    const text = token.replaceAll(replacement, " ");
    return isFirst && dropsFirst && text.startsWith(" ") ? text.slice(1) : text;
  };
}

function wordPiece(rule: Rule): TokenToText {
  const prefix = typeof rule.prefix === "string" ? rule.prefix : "##";
  const cleans = rule.cleanup === true;
  return (token, isFirst) => {
    const text = isFirst ? token : token.startsWith(prefix) ? token.slice(prefix.length) : ` ${token}`;
    return cleans ? withoutSpaceBeforePunctuation(text) : text;
  };
}

/** The per-token clean-up of the WordPiece decoder. */
function withoutSpaceBeforePunctuation(text: string): string {
  return text
    .replaceAll(/ ([.?!,])/g, "$1")
    .replaceAll(" ' ", "'")
    .replaceAll(/ (n't|'m|'s|'ve|'re)/g, "$1");
}

/** SentencePiece style: Replace and ByteFallback per token, then Fuse, then Strip at the start of the text. */
function tryParseReplacing(rules: readonly Rule[], tokens: readonly (string | undefined)[]): Pieces | undefined {
  const replacements: (readonly [string, string])[] = [];
  let hasByteTokens = false;
  let isFused = false;
  let leading = NO_LEADING;
  for (const rule of rules) {
    const replacement = tryReplacement(rule);
    const strip = tryLeadingStrip(rule);
    if (replacement !== undefined && !isFused) replacements.push(replacement);
    else if (rule.type === "ByteFallback") hasByteTokens = true;
    else if (rule.type === "Fuse") isFused = true;
    else if (strip !== undefined && isFused) leading = strip;
    else return undefined;
  }
  return new TokenPieces(tokens, replacing(replacements, hasByteTokens), leading);
}

function replacing(replacements: readonly (readonly [string, string])[], hasByteTokens: boolean): TokenToText {
  return (token) => {
    const hex = hasByteTokens ? BYTE_TOKEN.exec(token)?.[1] : undefined;
    if (hex !== undefined) return Uint8Array.of(Number.parseInt(hex, 16));
    return replacements.reduce((text, [from, to]) => text.replaceAll(from, to), token);
  };
}

function tryReplacement(rule: Rule): readonly [string, string] | undefined {
  if (rule.type !== "Replace" || !isObject(rule.pattern)) return undefined;
  const from = rule.pattern.String;
  const to = rule.content;
  return typeof from === "string" && from !== "" && typeof to === "string" ? [from, to] : undefined;
}

function tryLeadingStrip(rule: Rule): Pieces["leading"] | undefined {
  const { type, content, start, stop } = rule;
  if (type !== "Strip" || typeof content !== "string" || content.length !== 1) return undefined;
  return typeof start === "number" && (stop === 0 || stop === undefined) ? { char: content, count: start } : undefined;
}

function flatten(section: unknown): readonly Rule[] {
  if (!isObject(section)) return [];
  if (section.type !== "Sequence") return [section];
  return Array.isArray(section.decoders) ? section.decoders.flatMap(flatten) : [];
}

/** Converts each token once and keeps its bytes. */
class TokenPieces implements Pieces {
  readonly leading: Pieces["leading"];
  readonly #tokens: readonly (string | undefined)[];
  readonly #convert: TokenToText;
  readonly #inner = new Map<number, Uint8Array>();
  readonly #encoder = new TextEncoder();

  constructor(tokens: readonly (string | undefined)[], convert: TokenToText, leading: Pieces["leading"]) {
    this.#tokens = tokens;
    this.#convert = convert;
    this.leading = leading;
  }

  bytesOf(id: number, isFirst: boolean): Uint8Array | undefined {
    const known = isFirst ? undefined : this.#inner.get(id);
    if (known !== undefined) return known;
    const token = this.#tokens[id];
    if (token === undefined) return undefined;
    const piece = this.#convert(token, isFirst);
    const bytes = typeof piece === "string" ? this.#encoder.encode(piece) : piece;
    if (!isFirst) this.#inner.set(id, bytes);
    return bytes;
  }
}
