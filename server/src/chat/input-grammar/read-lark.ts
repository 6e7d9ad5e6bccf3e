/**
 * Grammars in Lark's form as trees. Terminals stand where they are used, so that a text that Lark's lexer would cut
 * otherwise passes too. Sources: Lark's documentation, "Grammar Reference"; OpenAI's guide "Function calling", which
 * refuses priorities of terminals, templates, `%declare` and imports other than `common`.
 */
import { anyCase } from "./code-points.ts";
import { EMPTY, type Expression, either, sequence, type TextGrammar } from "./expression.ts";
import { GrammarError } from "./grammar-error.ts";
import { COMMON_TERMINALS } from "./lark-common.ts";
import { type LarkToken, larkTokens } from "./lark-tokens.ts";
import { readExpression } from "./read-expression.ts";

/** No rule of a client has such a name. */
const IGNORED = "%ignored";
const START = "start";
const NO_FLAGS = { ignoresCase: false, isSingleLine: false };
const IMPORT = /^%import$/;
/** Nested groups. */
const MAX_DEPTH = 100;

/** @throws GrammarError */
export function readLark(text: string): TextGrammar {
  return new LarkReader(larkTokens(text)).whole();
}

class LarkReader {
  readonly #tokens: readonly LarkToken[];
  readonly #rules = new Map<string, Expression>();
  readonly #ignored: Expression[] = [];
  /** Names that are used, with their lines. */
  readonly #used = new Map<string, number>();
  readonly #hasIgnored: boolean;
  #at = 0;
  #depth = 0;
  /** Within a terminal nothing is ignored between its parts. */
  #isTerminal = false;

  constructor(tokens: readonly LarkToken[]) {
    this.#tokens = tokens;
    this.#hasIgnored = tokens.some(({ kind, text }) => kind === "directive" && text === "%ignore");
  }

  whole(): TextGrammar {
    while (!this.#isNext("end")) this.#statement();
    for (const [name, line] of this.#used) {
      if (!this.#rules.has(name)) throw new GrammarError(`line ${line}: '${name}' is not defined`);
    }
    if (!this.#rules.has(START)) throw new GrammarError(`there is no rule '${START}'`);
    const start: Expression = { kind: "rule", name: START };
    if (!this.#hasIgnored) return { rules: this.#rules, start };
    const skipped: Expression = { kind: "repeat", part: either(this.#ignored), min: 0, max: undefined };
    return {
      rules: new Map([...this.#rules, [IGNORED, skipped]]),
      start: sequence([start, { kind: "rule", name: IGNORED }]),
    };
  }

  #statement(): void {
    const token = this.#take();
    switch (token.kind) {
      case "line-end":
        return;
      case "directive":
        this.#directive(token);
        return;
      case "name":
      case "terminal":
        this.#definition(token);
        return;
      default:
        throw fault(token, `unexpected '${token.text}'`);
    }
  }

  #definition(token: LarkToken): void {
    const name = token.text.replace(/^[!?]+/, "");
    if (this.#isSign("{")) throw fault(token, "templates are not supported");
    if (this.#isSign(".")) {
      if (token.kind === "terminal") throw fault(token, "priorities of terminals are not supported");
      this.#at += 2; // that of a rule chooses between readings of one text
    }
    this.#expectSign(":");
    if (this.#rules.has(name)) throw fault(token, `'${name}' is defined twice`);
    this.#isTerminal = token.kind === "terminal";
    this.#rules.set(name, this.#alternatives());
    this.#expectLineEnd();
  }

  #directive(token: LarkToken): void {
    if (IMPORT.test(token.text)) this.#readImport();
    else if (token.text === "%ignore") {
      this.#isTerminal = true;
      this.#ignored.push(this.#alternatives());
    } else throw fault(token, `'${token.text}' is not supported`);
    this.#expectLineEnd();
  }

  /** `%import common.NAME`, `%import common.NAME -> OTHER`, `%import common (NAME, NAME)`. */
  #readImport(): void {
    const from = this.#take();
    if (from.text !== "common") throw fault(from, `imports other than 'common' are not supported: '${from.text}'`);
    if (this.#takeSign(".")) {
      const name = this.#take();
      this.#define(name, this.#takeSign("->") ? this.#take() : name);
      return;
    }
    this.#expectSign("(");
    do {
      const name = this.#take();
      this.#define(name, name);
    } while (this.#takeSign(","));
    this.#expectSign(")");
  }

  #define(name: LarkToken, as: LarkToken): void {
    const pattern = COMMON_TERMINALS.get(name.text);
    if (pattern === undefined) throw fault(name, `'common' has no '${name.text}' here`);
    this.#rules.set(as.text, readExpression(pattern, NO_FLAGS));
  }

  #alternatives(): Expression {
    const options = [this.#branch()];
    while (this.#takeSign("|")) options.push(this.#branch());
    return either(options);
  }

  #branch(): Expression {
    const parts: Expression[] = [];
    while (this.#startsAtom()) parts.push(this.#repeated(this.#atom()));
    if (this.#takeSign("->")) this.#take(); // the name of the branch in a tree
    return parts.length === 0 ? EMPTY : sequence(parts);
  }

  #startsAtom(): boolean {
    const { kind, text } = this.#token();
    return ["name", "terminal", "string", "expression"].includes(kind) || (kind === "sign" && "([<".includes(text));
  }

  #repeated(part: Expression): Expression {
    if (this.#takeSign("*")) return { kind: "repeat", part, min: 0, max: undefined };
    if (this.#takeSign("+")) return { kind: "repeat", part, min: 1, max: undefined };
    if (this.#takeSign("?")) return { kind: "repeat", part, min: 0, max: 1 };
    if (!this.#takeSign("~")) return part;
    const min = this.#count();
    const max = this.#takeSign("..") ? this.#count() : min;
    if (max < min) throw fault(this.#token(), `'~ ${min}..${max}' is out of order`);
    return { kind: "repeat", part, min, max };
  }

  #count(): number {
    const token = this.#take();
    if (token.kind !== "number" || token.text.startsWith("-"))
      throw fault(token, `expected a count, got '${token.text}'`);
    return Number(token.text);
  }

  #atom(): Expression {
    const token = this.#take();
    switch (token.kind) {
      case "name":
        return this.#reference(token);
      case "terminal":
        return this.#piece(this.#reference(token));
      case "string":
        return this.#piece(this.#takeSign("..") ? rangeOf(token, this.#take()) : textOf(token));
      case "expression":
        return this.#piece(expressionOf(token));
      default:
        return this.#group(token);
    }
  }

  #group(token: LarkToken): Expression {
    if (token.text === "<") throw fault(token, "tokens of the model are not supported");
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw fault(token, `more than ${MAX_DEPTH} groups are nested`);
    const inner = this.#alternatives();
    this.#depth -= 1;
    this.#expectSign(token.text === "[" ? "]" : ")");
    return token.text === "[" ? { kind: "repeat", part: inner, min: 0, max: 1 } : inner;
  }

  #reference({ text, line }: LarkToken): Expression {
    const name = text.replace(/^[!?]+/, "");
    if (!this.#used.has(name)) this.#used.set(name, line);
    return { kind: "rule", name };
  }

  /** A terminal of a rule, with ignored texts in front of it. */
  #piece(terminal: Expression): Expression {
    if (this.#isTerminal || !this.#hasIgnored) return terminal;
    return sequence([{ kind: "rule", name: IGNORED }, terminal]);
  }

  #token(): LarkToken {
    return this.#tokens[Math.min(this.#at, this.#tokens.length - 1)] ?? { kind: "end", text: "", line: 0 };
  }

  #take(): LarkToken {
    const token = this.#token();
    this.#at += 1;
    return token;
  }

  #isNext(kind: LarkToken["kind"]): boolean {
    return this.#token().kind === kind;
  }

  #isSign(sign: string): boolean {
    const { kind, text } = this.#token();
    return kind === "sign" && text === sign;
  }

  #takeSign(sign: string): boolean {
    const isThere = this.#isSign(sign);
    if (isThere) this.#at += 1;
    return isThere;
  }

  #expectSign(sign: string): void {
    const token = this.#token();
    if (!this.#takeSign(sign)) throw fault(token, `expected '${sign}', got '${token.text}'`);
  }

  #expectLineEnd(): void {
    const token = this.#take();
    if (token.kind === "line-end") return;
    throw fault(token, token.text === "{" ? "templates are not supported" : `unexpected '${token.text}'`);
  }
}

function fault({ line }: LarkToken, text: string): GrammarError {
  return new GrammarError(`line ${line}: ${text}`);
}

/** The text between the quotes. */
function unquoted(token: LarkToken): string {
  const inner = token.text.replace(/i$/, "").slice(1, -1);
  return inner.replaceAll(
    /\\(?:x([\dA-Fa-f]{2})|u([\dA-Fa-f]{4})|U([\dA-Fa-f]{8})|(.))/gsu,
    (_, ...groups: string[]) => {
      const [two, four, eight, sign = ""] = groups;
      const digits = two ?? four ?? eight;
      if (digits === undefined) return SIGNS.get(sign) ?? sign;
      const point = Number.parseInt(digits, 16);
      if (point > 0x10ffff) throw fault(token, `no character has the number ${digits}`);
      return String.fromCodePoint(point);
    },
  );
}

const SIGNS: ReadonlyMap<string, string> = new Map([
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["f", "\f"],
  ["v", "\v"],
]);

function textOf(token: LarkToken): Expression {
  const text = unquoted(token);
  if (!token.text.endsWith("i")) return { kind: "text", text };
  return sequence(
    [...text].map((char): Expression => {
      const point = char.codePointAt(0) ?? 0;
      return { kind: "points", points: anyCase([[point, point]]) };
    }),
  );
}

function rangeOf(first: LarkToken, last: LarkToken): Expression {
  const [low, high] = [first, last].map((token) => [...unquoted(token)]);
  const [from, to] = [low?.[0]?.codePointAt(0), high?.[0]?.codePointAt(0)];
  const isRange = last.kind === "string" && low?.length === 1 && high?.length === 1;
  if (!isRange || from === undefined || to === undefined || to < from) {
    throw fault(first, `expected a range of characters, got ${first.text}..${last.text}`);
  }
  return { kind: "points", points: [[from, to]] };
}

function expressionOf(token: LarkToken): Expression {
  const end = token.text.lastIndexOf("/");
  const flags = token.text.slice(end + 1);
  const other = /[^isu]/.exec(flags)?.[0];
  if (other !== undefined) throw fault(token, `flag '${other}' of a regular expression is not supported`);
  const pattern = token.text.slice(1, end).replaceAll("\\/", "/");
  try {
    return readExpression(pattern, { ignoresCase: flags.includes("i"), isSingleLine: flags.includes("s") });
  } catch (error) {
    throw error instanceof GrammarError ? fault(token, error.message) : error;
  }
}
