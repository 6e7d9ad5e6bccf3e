/** Finds added tokens in text: leftmost, then longest. Knows neither normalisation nor vocabulary. */
import type { AddedToken } from "./tokenizer-json.ts";

/** A stretch of text between added tokens, or one such token. */
export type Section = string | AddedToken;

const WORD_CHARACTER = /[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}]/u;

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
    let at = 0;
    while (at < text.length) {
      const token = this.#match(text, at);
      if (token === undefined) {
        at++;
        continue;
      }
      let end = at;
      if (token.stripsLeft) end = start + text.slice(start, at).trimEnd().length;
      if (end > start) sections.push(text.slice(start, end));
      sections.push(token);
      at += token.content.length;
      if (token.stripsRight) at = skipSpace(text, at);
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
  const before = text.slice(Math.max(0, at - 1), at);
  const end = at + token.content.length;
  return !WORD_CHARACTER.test(before) && !WORD_CHARACTER.test(text.slice(end, end + 1));
}

function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && text.charAt(at).trim() === "") at++;
  return at;
}
