/**
 * Regular expressions of a client as trees, for texts that match as a whole. Classes `\d`, `\w` and `\s` are of ASCII.
 * Sources: the syntax that Rust's regex crate and Python's re share; OpenAI's guide "Function calling", which refuses
 * lookarounds, lazy quantifiers and back-references too.
 */
import { anyCase, type CodePoints, complement, merged } from "./code-points.ts";
import { EMPTY, type Expression, either, sequence } from "./expression.ts";
import { GrammarError } from "./grammar-error.ts";

export interface ExpressionFlags {
  /** Letters of ASCII stand for both cases. */
  readonly ignoresCase: boolean;
  /** A point stands for line breaks too. */
  readonly isSingleLine: boolean;
}

const DIGITS: CodePoints = [[0x30, 0x39]];
const WORDS: CodePoints = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];
const SPACES: CodePoints = [
  [0x09, 0x0d],
  [0x20, 0x20],
];
const LINE_BREAK: CodePoints = [[0x0a, 0x0a]];
const CLASSES: ReadonlyMap<string, CodePoints> = new Map([
  ["d", DIGITS],
  ["w", WORDS],
  ["s", SPACES],
  ["D", complement(DIGITS)],
  ["W", complement(WORDS)],
  ["S", complement(SPACES)],
]);
const CONTROLS: ReadonlyMap<string, number> = new Map([
  ["n", 10],
  ["r", 13],
  ["t", 9],
  ["f", 12],
  ["v", 11],
  ["a", 7],
  ["0", 0],
]);
/** Nested groups. */
const MAX_DEPTH = 100;
const LAST_POINT = 0x10ffff;

/** @throws GrammarError */
export function readExpression(pattern: string, flags: ExpressionFlags): Expression {
  return new ExpressionReader(pattern, flags).whole();
}

class ExpressionReader {
  readonly #pattern: string;
  #flags: ExpressionFlags;
  #at = 0;
  #depth = 0;

  constructor(pattern: string, flags: ExpressionFlags) {
    this.#pattern = pattern;
    this.#flags = flags;
  }

  /** Anchors around the whole pattern say what holds anyway. */
  whole(): Expression {
    this.#takeFlags();
    this.#take("^");
    const read = this.#alternatives();
    if (this.#at < this.#pattern.length) throw this.#error("a group is closed that is not open");
    return read;
  }

  /** `(?is)` in front of the whole. */
  #takeFlags(): void {
    const letters = this.#match(/\(\?([a-zA-Z]+)\)/y)?.[1];
    if (letters === undefined) return;
    if (!/^[isu]+$/.test(letters)) throw this.#error(`flags (?${letters}) are not supported`);
    this.#flags = {
      ignoresCase: this.#flags.ignoresCase || letters.includes("i"),
      isSingleLine: this.#flags.isSingleLine || letters.includes("s"),
    };
  }

  #alternatives(): Expression {
    const options = [this.#branch()];
    while (this.#take("|")) options.push(this.#branch());
    return either(options);
  }

  #branch(): Expression {
    const parts: Expression[] = [];
    while (this.#at < this.#pattern.length && !this.#isNext("|") && !this.#isNext(")")) {
      if (this.#isNext("$") && this.#at === this.#pattern.length - 1) {
        this.#at += 1;
        break;
      }
      parts.push(this.#repeated(this.#atom()));
    }
    return parts.length === 0 ? EMPTY : sequence(parts);
  }

  #repeated(part: Expression): Expression {
    const counts = this.#counts();
    if (counts === undefined) return part;
    if (this.#isNext("?")) throw this.#error("lazy quantifiers (*?, +?, ??) are not supported");
    if (this.#isNext("+")) throw this.#error("possessive quantifiers are not supported");
    if (this.#isNext("*")) throw this.#error("a quantifier follows a quantifier");
    return { kind: "repeat", part, ...counts };
  }

  #counts(): { readonly min: number; readonly max: number | undefined } | undefined {
    if (this.#take("*")) return { min: 0, max: undefined };
    if (this.#take("+")) return { min: 1, max: undefined };
    if (this.#take("?")) return { min: 0, max: 1 };
    const found = this.#match(/\{(\d{0,6})(?:(,)(\d{0,6}))?\}/y);
    if (found === undefined) return undefined;
    const [, low = "", comma, high = ""] = found;
    const min = Number(low);
    const max = comma === undefined ? min : high === "" ? undefined : Number(high);
    if (max !== undefined && max < min) throw this.#error(`the counts of ${found[0]} are out of order`);
    return { min, max };
  }

  #atom(): Expression {
    const char = this.#next();
    switch (char) {
      case "(":
        return this.#group();
      case "[":
        return this.#points(this.#characterClass());
      case ".":
        return { kind: "points", points: complement(this.#flags.isSingleLine ? [] : LINE_BREAK) };
      case "\\":
        return this.#points(this.#escape());
      case "^":
      case "$":
        throw this.#error("anchors within an expression are not supported");
      case "*":
      case "+":
      case "?":
        throw this.#error("a quantifier follows nothing");
      default:
        return this.#points(pointsOf(char));
    }
  }

  #group(): Expression {
    const isNamed = this.#match(/\?(?:P?<[A-Za-z_]\w*>|:)/y) !== undefined;
    if (!isNamed && this.#isNext("?")) {
      const opening = this.#pattern.slice(this.#at - 1, this.#at + 3);
      const isLook = /^\(\?<?[=!]/.test(opening);
      throw this.#error(isLook ? "lookarounds are not supported" : `groups with '${opening}' are not supported`);
    }
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw this.#error(`more than ${MAX_DEPTH} groups are nested`);
    const inner = this.#alternatives();
    if (!this.#take(")")) throw this.#error("a group is not closed");
    this.#depth -= 1;
    return inner;
  }

  #characterClass(): CodePoints {
    const isNegated = this.#take("^");
    const points: (readonly [number, number])[] = [];
    for (let isFirst = true; isFirst || !this.#isNext("]"); isFirst = false) {
      if (this.#isNext("[:") || this.#match(/&&|--|~~/y) !== undefined) {
        throw this.#error("classes within a class and their differences are not supported");
      }
      points.push(...this.#member());
    }
    this.#take("]");
    const all = this.#flags.ignoresCase ? anyCase(merged(points)) : merged(points);
    return isNegated ? complement(all) : all;
  }

  #member(): CodePoints {
    const first = this.#oneOrMore();
    const low = onlyPoint(first);
    if (low === undefined || !this.#isNext("-") || this.#pattern.charAt(this.#at + 1) === "]") return first;
    this.#at += 1;
    const high = onlyPoint(this.#oneOrMore());
    if (high === undefined || high < low) throw this.#error("a range of a class goes from low to high");
    return [[low, high]];
  }

  #oneOrMore(): CodePoints {
    const char = this.#next();
    return char === "\\" ? this.#escape("b-") : pointsOf(char);
  }

  /** `inClass`: letters that mean something else outside of a class. */
  #escape(inClass = ""): CodePoints {
    const char = this.#next();
    const known = CLASSES.get(char);
    if (known !== undefined) return known;
    if (char === "b" && inClass !== "") return [[8, 8]];
    const digits = this.#match(hexDigitsBehind(char))?.[0].replaceAll(/[{}]/g, "");
    const point = digits === undefined ? CONTROLS.get(char) : Number.parseInt(digits, 16);
    if (point !== undefined && point <= LAST_POINT) return [[point, point]];
    if (!/[A-Za-z0-9]/.test(char)) return pointsOf(char);
    throw this.#error(`\\${char} is not supported`);
  }

  #points(points: CodePoints): Expression {
    const all = this.#flags.ignoresCase ? anyCase(points) : points;
    if (all.length === 0) throw this.#error("a class holds no character");
    return { kind: "points", points: all };
  }

  #isNext(sign: string): boolean {
    return this.#pattern.startsWith(sign, this.#at);
  }

  #take(sign: string): boolean {
    if (!this.#isNext(sign)) return false;
    this.#at += sign.length;
    return true;
  }

  #next(): string {
    const point = this.#pattern.codePointAt(this.#at);
    if (point === undefined) throw this.#error("the expression ends too early");
    const char = String.fromCodePoint(point);
    this.#at += char.length;
    return char;
  }

  #match(expression: RegExp): RegExpExecArray | undefined {
    expression.lastIndex = this.#at;
    const found = expression.exec(this.#pattern) ?? undefined;
    this.#at += found?.[0].length ?? 0;
    return found;
  }

  #error(fault: string): GrammarError {
    return new GrammarError(`at character ${this.#at} of the regular expression: ${fault}`);
  }
}

function pointsOf(char: string): CodePoints {
  const point = char.codePointAt(0) ?? 0;
  return [[point, point]];
}

function onlyPoint(points: CodePoints): number | undefined {
  const [range, ...others] = points;
  return range !== undefined && others.length === 0 && range[0] === range[1] ? range[0] : undefined;
}

const NO_DIGITS = /(?!)/y;

function hexDigitsBehind(char: string): RegExp {
  if (char === "x") return /[\dA-Fa-f]{2}|\{[\dA-Fa-f]{1,6}\}/y;
  if (char === "u") return /[\dA-Fa-f]{4}|\{[\dA-Fa-f]{1,6}\}/y;
  return char === "U" ? /[\dA-Fa-f]{8}/y : NO_DIGITS;
}
