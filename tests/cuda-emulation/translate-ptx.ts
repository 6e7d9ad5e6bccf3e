/**
 * Inline assembly of a kernel as calls of C++ functions: `asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x))` becomes
 * `ptx::ex2_approx_ftz_f32(y, x)`. Operands come in the order of the text. Knows no instruction.
 */

const ASM = /\basm(?:\s+volatile)?\s*\(/g;

/** @throws Error naming the statement that it cannot read */
export function translatePtx(text: string): string {
  let out = "";
  let at = 0;
  for (const match of text.matchAll(ASM)) {
    const start = match.index + match[0].length;
    const end = closingAt(text, start);
    const inner = text.slice(start, end);
    // Lines keep their numbers, for the messages of the compiler.
    const lines = "\n".repeat(text.slice(match.index, end).split("\n").length - 1);
    out += text.slice(at, match.index) + callOf(inner) + lines;
    at = end + 1;
  }
  return out + text.slice(at);
}

function callOf(inner: string): string {
  const [template = "", ...sections] = splitOutside(inner, ":");
  const text = [...template.matchAll(/"([^"]*)"/g)].map(([, part]) => part).join("");
  const operands = sections.slice(0, 2).flatMap((section) => splitOutside(section, ",").flatMap(expressionOf));
  const found = /^\s*([^\s;]+)(?:\s+([^;]*))?;\s*$/.exec(text);
  if (found === null) throw new Error(`inline assembly must be one instruction that ends in ";", not ${text}`);
  const [, instruction = "", list = ""] = found;
  const args = list
    .replace(/[{}[\]]/g, "")
    .split(",")
    .map((arg) => arg.trim())
    .filter((arg) => arg !== "");
  return `ptx::${instruction.replace(/\W+/g, "_")}(${args.map((arg) => argumentOf(arg, operands, text)).join(", ")})`;
}

function argumentOf(arg: string, operands: readonly string[], text: string): string {
  if (arg.startsWith("%%")) return `ptx::${arg.slice(2)}()`;
  if (!arg.startsWith("%")) return arg;
  const operand = operands[Number(arg.slice(1))];
  if (operand === undefined) throw new Error(`${text} has no operand ${arg}: there are ${operands.length}`);
  return operand;
}

/** The expression in the parentheses behind a constraint, as `"=r"(pair)`. */
function expressionOf(operand: string): string[] {
  const found = /^\s*"[^"]*"\s*\(([\s\S]*)\)\s*$/.exec(operand);
  return found?.[1] === undefined ? [] : [found[1]];
}

/** Parts between separators that are outside of quotes and parentheses. */
function splitOutside(text: string, separator: string): string[] {
  const parts: string[] = [];
  let start = 0;
  for (const { index, char, depth } of outsideQuotes(text, 0)) {
    if (depth !== 0 || char !== separator) continue;
    parts.push(text.slice(start, index));
    start = index + 1;
  }
  return [...parts, text.slice(start)];
}

function closingAt(text: string, start: number): number {
  for (const { index, depth } of outsideQuotes(text, start)) if (depth < 0) return index;
  throw new Error(`inline assembly without an end: ${text.slice(start, start + 80)}`);
}

function* outsideQuotes(text: string, start: number): Generator<{ index: number; char: string; depth: number }> {
  let depth = 0;
  let isQuoted = false;
  for (let index = start; index < text.length; index++) {
    const char = text.charAt(index);
    if (char === '"') isQuoted = !isQuoted;
    if (isQuoted) continue;
    if (/[([{]/.test(char)) depth++;
    if (/[)\]}]/.test(char)) depth--;
    yield { index, char, depth };
  }
}
