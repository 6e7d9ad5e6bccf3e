/**
 * Tokenizes the protobuf text format, with locations (protobuf.dev, "Text Format Language Specification"). Knows no
 * schema.
 */
import { invalidArgument, type ServerError } from "../../core/server-error.ts";

export interface Token {
  /** "placeholder" is an unfilled `${name}` of a template: never legal, but named in the error. */
  readonly kind: "identifier" | "number" | "string" | "symbol" | "placeholder" | "end";
  /** As written; of a string, the decoded content. */
  readonly text: string;
  readonly line: number;
  readonly column: number;
}

const BLANKS = /(?:[ \t\r\n\f\v\uFEFF]+|#[^\n]*)+/y;
const IDENTIFIER = /[A-Za-z_][A-Za-z0-9_]*/y;
const NUMBER = /(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?)/y;
const PLACEHOLDER = /\$\{[^}\n]*\}|\$[A-Za-z_][A-Za-z0-9_]*/y;
const ESCAPE = /\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|([abfnrtv?'"\\]))/y;
const SYMBOLS = "{}<>[]:,;-.";
const SIMPLE_ESCAPES: ReadonlyMap<string, number> = new Map([
  ["a", 7],
  ["b", 8],
  ["f", 12],
  ["n", 10],
  ["r", 13],
  ["t", 9],
  ["v", 11],
]);
const MAX_CODE_POINT = 0x10ffff;

/** @throws ServerError with `file:line:column` */
export function tokenize(text: string, file: string): Token[] {
  const scanner = new Scanner(text, file);
  const tokens: Token[] = [];
  for (;;) {
    const token = scanner.next();
    tokens.push(token);
    if (token.kind === "end") return tokens;
  }
}

/** Error of every configuration reader: the location first, so that editors can open it. */
export function errorAt(
  file: string,
  place: { readonly line: number; readonly column: number },
  message: string,
): ServerError {
  return invalidArgument(`${file}:${place.line}:${place.column}: ${message}`);
}

class Scanner {
  readonly #text: string;
  readonly #file: string;
  #offset = 0;
  #line = 1;
  #lineStart = 0;

  constructor(text: string, file: string) {
    this.#text = text;
    this.#file = file;
  }

  next(): Token {
    const blanks = this.#match(BLANKS);
    if (blanks !== undefined) this.#advance(blanks);
    const place = { line: this.#line, column: this.#offset - this.#lineStart + 1 };
    const character = this.#text[this.#offset];
    if (character === undefined) return { kind: "end", text: "", ...place };
    if (character === '"' || character === "'")
      return { kind: "string", text: this.#string(character, place), ...place };
    const word = this.#word(character);
    if (word === undefined) throw errorAt(this.#file, place, `unexpected character '${character}'`);
    this.#offset += word.text.length;
    this.#refuseGluedWord(word, place);
    return { ...word, ...place };
  }

  #word(character: string): Pick<Token, "kind" | "text"> | undefined {
    const identifier = this.#match(IDENTIFIER);
    if (identifier !== undefined) return { kind: "identifier", text: identifier };
    const number = this.#match(NUMBER);
    if (number !== undefined) return { kind: "number", text: number };
    const placeholder = this.#match(PLACEHOLDER);
    if (placeholder !== undefined) return { kind: "placeholder", text: placeholder };
    return SYMBOLS.includes(character) ? { kind: "symbol", text: character } : undefined;
  }

  /** `12abc` is one mistake, not a number and a field. */
  #refuseGluedWord(word: Pick<Token, "kind" | "text">, place: { line: number; column: number }): void {
    if (word.kind !== "number") return;
    const rest = this.#match(IDENTIFIER);
    if (rest !== undefined) throw errorAt(this.#file, place, `'${word.text}${rest}' is not a number`);
  }

  #string(quote: string, place: { line: number; column: number }): string {
    const bytes: number[] = [];
    const plain = new TextEncoder();
    let start = ++this.#offset;
    const flush = () => {
      for (const byte of plain.encode(this.#text.slice(start, this.#offset))) bytes.push(byte);
    };
    for (;;) {
      const character = this.#text[this.#offset];
      if (character === undefined || character === "\n") {
        throw errorAt(this.#file, place, "this text has no closing quote on its line");
      }
      if (character !== quote && character !== "\\") {
        this.#offset++;
        continue;
      }
      flush();
      if (character === quote) break;
      bytes.push(...this.#escape());
      start = this.#offset;
    }
    this.#offset++;
    return this.#decode(bytes, place);
  }

  #escape(): Iterable<number> {
    const place = { line: this.#line, column: this.#offset - this.#lineStart + 1 };
    ESCAPE.lastIndex = this.#offset;
    const found = ESCAPE.exec(this.#text);
    if (found === null) {
      throw errorAt(this.#file, place, `'${this.#text.slice(this.#offset, this.#offset + 2)}' is no escape sequence`);
    }
    this.#offset += found[0].length;
    const [, hex, short, long, octal, simple] = found;
    const codePoint = short ?? long;
    if (codePoint !== undefined) {
      const value = Number.parseInt(codePoint, 16);
      if (value > MAX_CODE_POINT) throw errorAt(this.#file, place, `'${found[0]}' is beyond Unicode`);
      return new TextEncoder().encode(String.fromCodePoint(value));
    }
    if (hex !== undefined) return [Number.parseInt(hex, 16)];
    if (octal !== undefined) return [Number.parseInt(octal, 8) & 0xff];
    return [SIMPLE_ESCAPES.get(simple ?? "") ?? (simple ?? "").charCodeAt(0)];
  }

  #decode(bytes: readonly number[], place: { line: number; column: number }): string {
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
    } catch {
      throw errorAt(this.#file, place, "this text is not valid UTF-8");
    }
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#offset;
    return pattern.exec(this.#text)?.[0];
  }

  #advance(skipped: string): void {
    const lastBreak = skipped.lastIndexOf("\n");
    if (lastBreak >= 0) {
      this.#line += skipped.split("\n").length - 1;
      this.#lineStart = this.#offset + lastBreak + 1;
    }
    this.#offset += skipped.length;
  }
}
