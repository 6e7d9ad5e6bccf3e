/**
 * Reads a grammar in xgrammar's EBNF: rules of choices, sequences, repetitions, and `TagDispatch`. Assertions about what
 * follows a rule are dropped: they only make that library faster. Source: xgrammar's documentation, "EBNF", and the texts
 * that `Grammar.toString()` gives (web-xgrammar 0.1.27).
 */
import { EbnfScanner } from "./ebnf-scanner.ts";
import { type DispatchSyntax, EMPTY_TEXT, type Rules, type Syntax } from "./syntax.ts";

/** Brackets within brackets. */
const MAX_DEPTH = 500;
const UTF8 = new TextEncoder();

export interface EbnfOptions {
  /** Whether the library printed the text, rather than a client. */
  readonly isPrinted: boolean;
  /** A text that stands for an expression from outside has its number in the first group. */
  readonly place?: RegExp;
}

/** @throws EbnfError */
export function parseEbnf(text: string, options: EbnfOptions): Rules {
  return new Parser(text, options).rules();
}

class Parser {
  readonly #scanner: EbnfScanner;
  readonly #place: RegExp | undefined;
  #depth = 0;

  constructor(text: string, { isPrinted, place }: EbnfOptions) {
    this.#scanner = new EbnfScanner(text, isPrinted);
    this.#place = place;
  }

  rules(): Rules {
    const rules = new Map<string, Syntax>();
    while (!this.#scanner.hasEnded) {
      const name = this.#scanner.name();
      this.#scanner.expect("::=");
      if (rules.has(name)) throw this.#scanner.error(`rule ${name} is there twice`);
      rules.set(name, this.#choice());
      if (this.#scanner.take("(=")) {
        this.#choice();
        this.#scanner.expect(")");
      }
    }
    return rules;
  }

  #choice(): Syntax {
    if (++this.#depth > MAX_DEPTH) throw this.#scanner.error(`more than ${MAX_DEPTH} brackets within each other`);
    const options = [this.#sequence()];
    while (this.#scanner.take("|")) options.push(this.#sequence());
    this.#depth -= 1;
    const [only] = options;
    return options.length === 1 && only !== undefined ? only : { kind: "choice", options };
  }

  #sequence(): Syntax {
    const parts: Syntax[] = [];
    while (this.#startsElement()) parts.push(this.#repeated());
    const [only] = parts;
    return parts.length === 1 && only !== undefined ? only : { kind: "sequence", parts };
  }

  #startsElement(): boolean {
    const scanner = this.#scanner;
    if (scanner.starts("(=")) return false;
    if (scanner.starts("(") || scanner.starts("[") || scanner.starts('"')) return true;
    return scanner.startsName() && !scanner.startsRule();
  }

  #repeated(): Syntax {
    let part = this.#element();
    for (let range = this.#range(); range !== undefined; range = this.#range()) {
      part = { kind: "repeat", part, ...range };
    }
    return part;
  }

  #range(): { readonly min: number; readonly max: number } | undefined {
    const scanner = this.#scanner;
    if (scanner.take("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (scanner.take("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (scanner.take("?")) return { min: 0, max: 1 };
    if (!scanner.take("{")) return undefined;
    const min = scanner.integer();
    const max = this.#upperBound(min);
    scanner.expect("}");
    if (max < min) throw scanner.error(`expected at least ${min} repetitions, got ${max}`);
    return { min, max };
  }

  #upperBound(min: number): number {
    const scanner = this.#scanner;
    if (!scanner.take(",")) return min;
    return scanner.starts("}") || scanner.take("-1") ? Number.POSITIVE_INFINITY : scanner.integer();
  }

  #element(): Syntax {
    const scanner = this.#scanner;
    if (scanner.starts('"')) return this.#text(scanner.quoted());
    if (scanner.starts("[")) return { kind: "class", ranges: scanner.characterClass() };
    if (scanner.take("(")) {
      const inner = this.#choice();
      scanner.expect(")");
      return inner;
    }
    const name = scanner.name();
    return name === "TagDispatch" && scanner.take("(") ? this.#dispatch() : { kind: "name", name };
  }

  #text(points: readonly number[]): Syntax {
    if (this.#place === undefined) return textOf(points);
    const text = String.fromCodePoint(...points);
    const pieces = text.split(this.#place);
    if (pieces.length === 1) return textOf(points);
    // Every second piece is the number of a place.
    const parts = pieces.map((piece, i): Syntax => {
      if (i % 2 === 1) return { kind: "place", index: Number(piece) };
      return piece === "" ? EMPTY_TEXT : { kind: "text", bytes: [...UTF8.encode(piece)] };
    });
    return { kind: "sequence", parts };
  }

  #dispatch(): DispatchSyntax {
    const scanner = this.#scanner;
    const tags: DispatchSyntax["tags"][number][] = [];
    const named = new Map<string, readonly number[][] | boolean>();
    while (!scanner.take(")")) {
      if (scanner.take("(")) tags.push(this.#tag());
      else {
        const name = scanner.name();
        scanner.expect("=");
        named.set(name, this.#value());
      }
      if (!scanner.starts(")")) scanner.expect(",");
    }
    const stops = named.get("stop_str");
    return {
      kind: "dispatch",
      tags,
      stops: Array.isArray(stops) ? stops : [],
      mayEndAnywhere: named.get("stop_eos") !== false,
      loops: named.get("loop_after_dispatch") !== false,
    };
  }

  #tag(): DispatchSyntax["tags"][number] {
    const trigger = bytesOf(this.#scanner.quoted());
    this.#scanner.expect(",");
    const name = this.#scanner.name();
    this.#scanner.expect(")");
    return { trigger, name };
  }

  #value(): readonly number[][] | boolean {
    const scanner = this.#scanner;
    if (!scanner.take("(")) return scanner.name() === "true";
    const texts: number[][] = [];
    while (!scanner.take(")")) {
      texts.push(bytesOf(scanner.quoted()));
      scanner.take(",");
    }
    return texts;
  }
}

function textOf(points: readonly number[]): Syntax {
  return { kind: "text", bytes: bytesOf(points) };
}

function bytesOf(points: readonly number[]): number[] {
  return points.flatMap((point) => [...UTF8.encode(String.fromCodePoint(point))]);
}
