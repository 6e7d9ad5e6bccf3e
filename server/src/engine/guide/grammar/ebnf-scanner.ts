/**
 * The letters of a grammar in xgrammar's EBNF: names, texts, classes of characters, escapes, comments. Source: xgrammar's
 * documentation, "EBNF", and the texts that `Grammar.toString()` gives (web-xgrammar 0.1.27).
 */
import type { CodePointRange } from "./syntax.ts";

const LAST_CODE_POINT = 0x10ffff;
const ESCAPES: ReadonlyMap<string, number> = new Map([
  ...["'", '"', "?", "\\", "/"].map((char) => [char, char.charCodeAt(0)] as const),
  ...([
    ["a", 7],
    ["b", 8],
    ["t", 9],
    ["n", 10],
    ["v", 11],
    ["f", 12],
    ["r", 13],
    ["e", 27],
    ["0", 0],
  ] as const),
]);
/** Within a class these may be escaped too. */
const CLASS_ESCAPES = "^$.*+()[]{}|-";

/** Says which place of a grammar cannot be read. */
export class EbnfError extends Error {}

export class EbnfScanner {
  readonly #text: string;
  /** `\x` takes two digits in printed grammars, and any number of them in written ones. */
  readonly #isPrinted: boolean;
  #at = 0;

  constructor(text: string, isPrinted: boolean) {
    this.#text = text;
    this.#isPrinted = isPrinted;
    this.skipSpace();
  }

  get hasEnded(): boolean {
    return this.#at >= this.#text.length;
  }

  /** Without white space before it. */
  starts(sign: string): boolean {
    return this.#text.startsWith(sign, this.#at);
  }

  /** Passes the sign, if it is there. */
  take(sign: string): boolean {
    if (!this.starts(sign)) return false;
    this.#at += sign.length;
    this.skipSpace();
    return true;
  }

  expect(sign: string): void {
    if (!this.take(sign)) throw this.error(`expected ${sign}`);
  }

  name(): string {
    return this.#match(/[A-Za-z_.-][\w.-]*/y) ?? this.#fail("expected a name");
  }

  integer(): number {
    return Number(this.#match(/\d+/y) ?? this.#fail("expected a number"));
  }

  /** Whether a name that a rule begins with comes next. */
  startsRule(): boolean {
    const rule = /[A-Za-z_.-][\w.-]*[ \t]*::=/y;
    rule.lastIndex = this.#at;
    return rule.test(this.#text);
  }

  startsName(): boolean {
    return /[A-Za-z_.-]/.test(this.#text.charAt(this.#at));
  }

  /** A text in quotes, as code points. */
  quoted(): number[] {
    if (!this.starts('"')) throw this.error("expected a text");
    this.#at += 1;
    const points: number[] = [];
    while (!this.starts('"')) points.push(this.#character(""));
    this.#at += 1;
    this.skipSpace();
    return points;
  }

  /** A class of characters in brackets. */
  characterClass(): readonly CodePointRange[] {
    this.#at += 1; // the bracket
    const isNegated = this.starts("^");
    if (isNegated) this.#at += 1;
    const ranges: CodePointRange[] = [];
    while (!this.starts("]")) {
      const first = this.#character(CLASS_ESCAPES);
      const isRange = this.starts("-") && this.#text.charAt(this.#at + 1) !== "]";
      if (isRange) this.#at += 1;
      const last = isRange ? this.#character(CLASS_ESCAPES) : first;
      if (last < first) throw this.error("expected a range from low to high");
      ranges.push([first, last]);
    }
    this.#at += 1;
    this.skipSpace();
    const merged = mergeRanges(ranges);
    return isNegated ? complement(merged) : merged;
  }

  skipSpace(): void {
    this.#match(/(?:[ \t\r\n]|#[^\r\n]*)+/y, false);
  }

  error(what: string): EbnfError {
    const before = this.#text.slice(0, this.#at);
    const line = before.split("\n").length;
    const column = this.#at - before.lastIndexOf("\n");
    return new EbnfError(`line ${line}, column ${column} of the grammar: ${what}`);
  }

  #fail(what: string): never {
    throw this.error(what);
  }

  #match(pattern: RegExp, skipsSpace = true): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) return undefined;
    this.#at += found.length;
    if (skipsSpace) this.skipSpace();
    return found;
  }

  #character(moreEscapes: string): number {
    const point = this.#text.codePointAt(this.#at);
    if (point === undefined || point === 10 || point === 13) throw this.error("expected the end of a text or class");
    this.#at += point > 0xffff ? 2 : 1;
    return point === 0x5c ? this.#escaped(moreEscapes) : point;
  }

  #escaped(more: string): number {
    const sign = this.#text.charAt(this.#at);
    this.#at += 1;
    if (sign !== "" && more.includes(sign)) return sign.charCodeAt(0);
    const known = ESCAPES.get(sign);
    if (known !== undefined) return known;
    const digits = this.#match(this.#digitsBehind(sign), false);
    const point = Number.parseInt(digits ?? "", 16);
    if (!(point <= LAST_CODE_POINT)) throw this.error("expected a known escape");
    return point;
  }

  #digitsBehind(sign: string): RegExp {
    if (sign === "u") return /[\dA-Fa-f]{4}/y;
    if (sign === "U") return /[\dA-Fa-f]{8}/y;
    if (sign !== "x") throw this.error("expected a known escape");
    return this.#isPrinted ? /[\dA-Fa-f]{2}/y : /[\dA-Fa-f]+/y;
  }
}

export function mergeRanges(ranges: readonly CodePointRange[]): readonly CodePointRange[] {
  const merged: [number, number][] = [];
  for (const [first, last] of [...ranges].sort((a, b) => a[0] - b[0])) {
    const before = merged.at(-1);
    if (before !== undefined && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else merged.push([first, last]);
  }
  return merged;
}

function complement(ranges: readonly CodePointRange[]): readonly CodePointRange[] {
  const rest: CodePointRange[] = [];
  let next = 0;
  for (const [first, last] of ranges) {
    if (first > next) rest.push([next, first - 1]);
    next = last + 1;
  }
  if (next <= LAST_CODE_POINT) rest.push([next, LAST_CODE_POINT]);
  return rest;
}
