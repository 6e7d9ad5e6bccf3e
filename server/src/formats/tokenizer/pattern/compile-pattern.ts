/** Compiles a parsed pattern to the instructions of a backtracking machine. Source: R. Cox, "Regular Expression Matching: the VM Approach". */
import type { PatternNode } from "./parse-pattern.ts";

export type Instruction =
  | { readonly op: "char"; readonly matches: (codePoint: number) => boolean }
  /** Tries `first`, then `second`. */
  | { readonly op: "split"; readonly first: number; readonly second: number }
  | { readonly op: "look"; readonly program: readonly Instruction[]; readonly isNegative: boolean }
  | { readonly op: "behind"; readonly matches: (codePoint: number) => boolean; readonly isNegative: boolean }
  | { readonly op: "start" | "end" | "match" };

/** Counted loops are written out. */
const MAX_INSTRUCTIONS = 4096;

/** @throws Error when it becomes too long, or looks behind at more than a character */
export function compilePattern(node: PatternNode): readonly Instruction[] {
  const compiler = new Compiler();
  compiler.add(node);
  compiler.emit({ op: "match" });
  return compiler.instructions;
}

class Compiler {
  readonly instructions: Instruction[] = [];

  emit(instruction: Instruction): number {
    if (this.instructions.length >= MAX_INSTRUCTIONS)
      throw new Error(`pattern: more than ${MAX_INSTRUCTIONS} steps long`);
    return this.instructions.push(instruction) - 1;
  }

  add(node: PatternNode): void {
    switch (node.kind) {
      case "atom":
        this.emit({ op: "char", matches: matcherOf(node.text) });
        return;
      case "sequence":
        for (const item of node.items) this.add(item);
        return;
      case "choice":
        this.#choice(node.options);
        return;
      case "repeat":
        this.#repeat(node);
        return;
      case "look":
        this.#look(node);
        return;
      default:
        this.emit({ op: node.kind });
    }
  }

  get #next(): number {
    return this.instructions.length;
  }

  /** A place for a jump whose target is known later. */
  #hole(): number {
    return this.emit({ op: "match" });
  }

  #split(at: number, first: number, second: number): void {
    this.instructions[at] = { op: "split", first, second };
  }

  #choice(options: readonly PatternNode[]): void {
    const ends: number[] = [];
    for (const [i, option] of options.entries()) {
      if (i === options.length - 1) {
        this.add(option);
        continue;
      }
      const fork = this.#hole();
      this.add(option);
      ends.push(this.#hole());
      this.#split(fork, fork + 1, this.#next);
    }
    for (const end of ends) this.#split(end, this.#next, this.#next);
  }

  #repeat({ item, min, max, isLazy }: Extract<PatternNode, { kind: "repeat" }>): void {
    for (let i = 0; i < min; i += 1) this.add(item);
    if (max === Number.POSITIVE_INFINITY) {
      const fork = this.#hole();
      this.add(item);
      const back = this.#hole();
      this.#split(back, fork, fork);
      this.#fork(fork, this.#next, isLazy);
      return;
    }
    const forks: number[] = [];
    for (let i = min; i < max; i += 1) {
      forks.push(this.#hole());
      this.add(item);
    }
    for (const fork of forks) this.#fork(fork, this.#next, isLazy);
  }

  #fork(at: number, end: number, isLazy: boolean): void {
    if (isLazy) this.#split(at, end, at + 1);
    else this.#split(at, at + 1, end);
  }

  #look({ item, isBehind, isNegative }: Extract<PatternNode, { kind: "look" }>): void {
    if (!isBehind) this.emit({ op: "look", program: compilePattern(item), isNegative });
    else if (item.kind === "atom") this.emit({ op: "behind", matches: matcherOf(item.text), isNegative });
    else throw new Error("pattern: looks behind at more than one character, which is not supported");
  }
}

/** Classes are the engine's own: one character cannot take it long. */
function matcherOf(text: string): (codePoint: number) => boolean {
  const expression = new RegExp(`^${text === "." ? "." : `(?:${text})`}$`, "u");
  const known = new Map<number, boolean>();
  return (codePoint) => {
    const found = known.get(codePoint);
    if (found !== undefined) return found;
    const matches = expression.test(String.fromCodePoint(codePoint));
    known.set(codePoint, matches);
    return matches;
  };
}
