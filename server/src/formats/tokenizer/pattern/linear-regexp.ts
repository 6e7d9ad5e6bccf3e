/**
 * A regular expression whose time is linear in the text and bounded, with the matches of the engine's own: backtracking that visits
 * each step of the pattern at each place once. For patterns of models that could take exponential time. Source: RE2, bitstate.cc.
 */
import { invalidArgument } from "../../../core/server-error.ts";
import { compilePattern, type Instruction } from "./compile-pattern.ts";
import { isPlainPattern } from "./is-plain-pattern.ts";
import { parsePattern } from "./parse-pattern.ts";

/** Steps for one match: about 50 ms. */
const MAX_MATCH_STEPS = 5_000_000;
/** Steps for each character of a text, on average. */
const MAX_CHAR_STEPS = 1024;
const FIRST_ROWS = 64;

/** The expression itself, when the engine matches it in linear time. @throws Error when the pattern has no linear matcher */
export function boundedPattern(pattern: RegExp): RegExp {
  if (pattern instanceof LinearRegExp || isPlainPattern(pattern.source)) return pattern;
  return new LinearRegExp(pattern, pattern.flags);
}

/** Gives no groups: tokenizers use the match alone. */
export class LinearRegExp extends RegExp {
  readonly #program: readonly Instruction[];
  #text = "";
  #steps = 0;

  constructor(pattern: RegExp, flags: string) {
    super(pattern, flags);
    this.#program = pattern instanceof LinearRegExp ? pattern.#program : compilePattern(parsePattern(pattern.source));
  }

  /** @throws ServerError when the text takes too many steps */
  override exec(text: string): RegExpExecArray | null {
    const isKept = this.global || this.sticky;
    const from = isKept ? this.lastIndex : 0;
    const found = from > text.length ? undefined : this.#search(text, from);
    if (isKept) this.lastIndex = found?.end ?? 0;
    if (found === undefined) return null;
    const { start, end } = found;
    return Object.assign([text.slice(start, end)] as [string], { index: start, input: text });
  }

  #search(text: string, from: number): { readonly start: number; readonly end: number } | undefined {
    if (text !== this.#text) {
      this.#text = text;
      this.#steps = 0;
    }
    const run = new Run(this.#program, text, from);
    let start = from;
    let end = run.matchAt(start);
    while (end < 0 && start < text.length && !this.sticky) {
      start += unitsAt(text, start);
      end = run.matchAt(start);
    }
    this.#steps += run.steps;
    if (this.#steps > MAX_MATCH_STEPS + MAX_CHAR_STEPS * text.length) throw tooSlow();
    return end < 0 ? undefined : { start, end };
  }
}

class Run {
  readonly #program: readonly Instruction[];
  readonly #text: string;
  readonly #from: number;
  /** A bit for each step at each place behind `from`: it has been tried, and has failed. */
  #visited: Uint8Array;
  #rows = FIRST_ROWS;
  readonly #stack: number[] = [];
  steps = 0;

  constructor(program: readonly Instruction[], text: string, from: number) {
    this.#program = program;
    this.#text = text;
    this.#from = from;
    this.#visited = new Uint8Array(this.#rows * program.length);
  }

  /** The end of the match that begins here; -1: there is none. */
  matchAt(start: number): number {
    const stack = this.#stack;
    stack.length = 0;
    stack.push(0, start);
    while (stack.length > 0) {
      const at = stack.pop() ?? 0;
      const step = stack.pop() ?? 0;
      if (this.#isVisited(step, at)) continue;
      this.steps += 1;
      if (this.steps > MAX_MATCH_STEPS) throw tooSlow();
      const instruction = this.#program[step];
      if (instruction === undefined || instruction.op === "match") return at;
      this.#take(instruction, step, at);
    }
    return -1;
  }

  #take(instruction: Instruction, step: number, at: number): void {
    if (instruction.op === "split") {
      const { first, second } = instruction;
      if (second !== first) this.#stack.push(second, at);
      this.#stack.push(first, at);
    } else if (instruction.op === "char") {
      const point = this.#text.codePointAt(at);
      if (point !== undefined && instruction.matches(point)) this.#stack.push(step + 1, at + (point > 0xffff ? 2 : 1));
    } else if (this.#holds(instruction, at)) this.#stack.push(step + 1, at);
  }

  #holds(instruction: Exclude<Instruction, { op: "split" | "char" }>, at: number): boolean {
    switch (instruction.op) {
      case "start":
        return at === 0;
      case "end":
        return at === this.#text.length;
      case "behind": {
        const point = at === 0 ? undefined : pointBefore(this.#text, at);
        return (point !== undefined && instruction.matches(point)) !== instruction.isNegative;
      }
      case "look": {
        const inner = new Run(instruction.program, this.#text, at);
        inner.steps = this.steps;
        const isThere = inner.matchAt(at) >= 0;
        this.steps = inner.steps;
        return isThere !== instruction.isNegative;
      }
      default:
        return true;
    }
  }

  #isVisited(step: number, at: number): boolean {
    const row = at - this.#from;
    const width = this.#program.length;
    if (row >= this.#rows) {
      this.#rows = Math.max(row + 1, 2 * this.#rows);
      const grown = new Uint8Array(this.#rows * width);
      grown.set(this.#visited);
      this.#visited = grown;
    }
    const index = row * width + step;
    if (this.#visited[index] === 1) return true;
    this.#visited[index] = 1;
    return false;
  }
}

function pointBefore(text: string, at: number): number | undefined {
  const isPair = at > 1 && (text.codePointAt(at - 2) ?? 0) > 0xffff;
  return text.codePointAt(isPair ? at - 2 : at - 1);
}

function unitsAt(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}

function tooSlow(): Error {
  return invalidArgument("the tokenizer's pattern takes too many steps for this text");
}
