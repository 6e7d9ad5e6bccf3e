/**
 * Parses a pattern of tokenizer.json in JavaScript's syntax with the flag `u` (ECMA-262, 22.2.1), as the library translates it from
 * Oniguruma's. Back-references are not supported: no engine matches them in linear time.
 */

/** An atom is one character: a literal, an escape or a class, as written. */
export type PatternNode =
  | { readonly kind: "atom"; readonly text: string }
  | { readonly kind: "sequence"; readonly items: readonly PatternNode[] }
  | { readonly kind: "choice"; readonly options: readonly PatternNode[] }
  | {
      readonly kind: "repeat";
      readonly item: PatternNode;
      readonly min: number;
      readonly max: number;
      readonly isLazy: boolean;
    }
  | { readonly kind: "look"; readonly item: PatternNode; readonly isBehind: boolean; readonly isNegative: boolean }
  | { readonly kind: "start" | "end" };

const GROUPS: ReadonlyMap<string, readonly [isLook: boolean, isBehind: boolean, isNegative: boolean]> = new Map([
  ["(?:", [false, false, false]],
  ["(?=", [true, false, false]],
  ["(?!", [true, false, true]],
  ["(?<=", [true, true, false]],
  ["(?<!", [true, true, true]],
]);
const GROUP = /^\((?:\?(?:[:=!]|<[=!]|<[\p{L}\p{N}_$]+>|.))?/su;
const QUANTIFIER = /^(?:[*+?]|\{(\d+)(,)?(\d*)\})(\??)/;
const ESCAPE = /^\\(?:u\{[0-9a-f]+\}|u[0-9a-f]{4}(?:\\u[0-9a-f]{4})?|x[0-9a-f]{2}|c[a-z]|[pP]\{[^{}]*\}|[\s\S])/iu;
const MAX_DEPTH = 100;

/** @throws Error for syntax that is not supported */
export function parsePattern(source: string): PatternNode {
  const parser = new PatternParser(source);
  const node = parser.choice(0);
  parser.expectEnd();
  return node;
}

class PatternParser {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  expectEnd(): void {
    if (this.#at < this.#source.length) throw this.#refusal(`'${this.#source[this.#at]}'`);
  }

  choice(depth: number): PatternNode {
    if (depth > MAX_DEPTH) throw this.#refusal(`more than ${MAX_DEPTH} groups inside each other`);
    const options = [this.#sequence(depth)];
    while (this.#source[this.#at] === "|") {
      this.#at += 1;
      options.push(this.#sequence(depth));
    }
    const [only] = options;
    return options.length === 1 && only !== undefined ? only : { kind: "choice", options };
  }

  #sequence(depth: number): PatternNode {
    const items: PatternNode[] = [];
    for (
      let char = this.#source[this.#at];
      char !== undefined && char !== "|" && char !== ")";
      char = this.#source[this.#at]
    )
      items.push(this.#quantified(this.#item(char, depth)));
    const [only] = items;
    return items.length === 1 && only !== undefined ? only : { kind: "sequence", items };
  }

  #item(char: string, depth: number): PatternNode {
    if (char === "(") return this.#group(depth);
    if (char === "^" || char === "$") {
      this.#at += 1;
      return { kind: char === "^" ? "start" : "end" };
    }
    return { kind: "atom", text: this.#take(char === "[" ? this.#classEnd() : this.#literalEnd(char)) };
  }

  #group(depth: number): PatternNode {
    const [opening = ""] = GROUP.exec(this.#source.slice(this.#at)) ?? [];
    const isNamed = /^\(\?<[^=!]/.test(opening);
    const kind = isNamed || opening === "(" ? GROUPS.get("(?:") : GROUPS.get(opening);
    if (kind === undefined) throw this.#refusal(`the group '${opening}'`);
    this.#at += opening.length;
    const item = this.choice(depth + 1);
    if (this.#source[this.#at] !== ")") throw this.#refusal("a group without its end");
    this.#at += 1;
    const [isLook, isBehind, isNegative] = kind;
    return isLook ? { kind: "look", item, isBehind, isNegative } : item;
  }

  #quantified(item: PatternNode): PatternNode {
    const match = QUANTIFIER.exec(this.#source.slice(this.#at));
    if (match === null) return item;
    this.#at += match[0].length;
    const [mark = "", low, comma, high, lazy] = match;
    const min = low === undefined ? (mark.startsWith("+") ? 1 : 0) : Number(low);
    const most = mark.startsWith("?") ? 1 : Number.POSITIVE_INFINITY;
    const max = low === undefined ? most : comma === undefined ? min : high === "" ? most : Number(high);
    return { kind: "repeat", item, min, max, isLazy: lazy === "?" };
  }

  #literalEnd(char: string): number {
    if (char !== "\\") return this.#at + String.fromCodePoint(this.#source.codePointAt(this.#at) ?? 0).length;
    const [escaped = ""] = ESCAPE.exec(this.#source.slice(this.#at)) ?? [];
    if (/^\\(?:[1-9bBk]|$)/.test(escaped)) throw this.#refusal(`'${escaped}'`);
    return this.#at + escaped.length;
  }

  /** With the flag `u`, classes do not nest. */
  #classEnd(): number {
    for (let at = this.#at + 1; at < this.#source.length; at += 1) {
      if (this.#source[at] === "\\") at += 1;
      else if (this.#source[at] === "]") return at + 1;
    }
    throw this.#refusal("a class without its end");
  }

  #take(end: number): string {
    const text = this.#source.slice(this.#at, end);
    this.#at = end;
    return text;
  }

  #refusal(what: string): Error {
    return new Error(`pattern '${this.#source.slice(0, 80)}': ${what} at ${this.#at} is not supported`);
  }
}
