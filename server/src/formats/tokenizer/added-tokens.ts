/**
 * Finds added tokens in text: leftmost first, then longest. Source: tokenizers library, `added_vocabulary`. Knows
 * neither normalisation nor vocabulary.
 */
import type { AddedToken } from "./tokenizer-json.ts";

/** A stretch of text between added tokens, or one added token. */
export type Section = string | AddedToken;

/** Unicode White_Space; JavaScript's `\s` and `trim` differ from it in U+0085 and U+FEFF. */
const WHITE_SPACE = /\p{White_Space}/u;
const ENDS_IN_WORD = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const BEGINS_WITH_WORD = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]/u;

export class AddedTokenSplitter {
  /** By first UTF-16 unit, longest first. */
  readonly #byFirstUnit = new Map<number, readonly AddedToken[]>();

  constructor(tokens: readonly AddedToken[]) {
    const longestFirst = [...tokens].sort((a, b) => b.content.length - a.content.length);
    for (const token of longestFirst) {
      const unit = token.content.charCodeAt(0);
      this.#byFirstUnit.set(unit, [...(this.#byFirstUnit.get(unit) ?? []), token]);
    }
  }

  split(text: string): readonly Section[] {
    if (this.#byFirstUnit.size === 0) return text === "" ? [] : [text];
    const sections: Section[] = [];
    let start = 0;
    for (let at = 0; at < text.length; ) {
      const token = this.#match(text, at);
      if (token === undefined) {
        at++;
        continue;
      }
      const end = token.stripsLeft ? beforeSpace(text, start, at) : at;
      if (end > start) sections.push(text.slice(start, end));
      sections.push(token);
      at += token.content.length;
      if (token.stripsRight) at = afterSpace(text, at);
      start = at;
    }
    if (start < text.length) sections.push(text.slice(start));
    return sections;
  }

  #match(text: string, at: number): AddedToken | undefined {
    const candidates = this.#byFirstUnit.get(text.charCodeAt(at));
    if (candidates === undefined) return undefined;
    return candidates.find((token) => text.startsWith(token.content, at) && fits(token, text, at));
  }
}

function fits(token: AddedToken, text: string, at: number): boolean {
  if (!token.isSingleWord) return true;
  // Two UTF-16 units hold any character.
  const end = at + token.content.length;
  return !ENDS_IN_WORD.test(text.slice(Math.max(0, at - 2), at)) && !BEGINS_WITH_WORD.test(text.slice(end, end + 2));
}

function beforeSpace(text: string, from: number, to: number): number {
  let at = to;
  while (at > from && WHITE_SPACE.test(text.charAt(at - 1))) at--;
  return at;
}

function afterSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && WHITE_SPACE.test(text.charAt(at))) at++;
  return at;
}
