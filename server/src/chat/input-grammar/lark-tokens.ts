/** Tokens of a grammar in Lark's form. Source: Lark's documentation, "Grammar Reference". */
import { GrammarError } from "./grammar-error.ts";

export interface LarkToken {
  readonly kind: "name" | "terminal" | "string" | "expression" | "number" | "directive" | "sign" | "line-end" | "end";
  /** Strings and expressions with their quotes and flags. */
  readonly text: string;
  readonly line: number;
}

const PATTERNS: readonly (readonly [kind: LarkToken["kind"] | "blank", pattern: RegExp])[] = [
  ["blank", /(?:[ \t\f]|\/\/[^\n]*|#[^\n]*|\\\r?\n)+/y],
  ["line-end", /(?:\r?\n(?:[ \t\f]|\/\/[^\n]*|#[^\n]*)*)+/y],
  ["string", /"(?:[^"\\\n]|\\[^\n])*"i?/y],
  ["expression", /\/(?!\/)(?:[^/\\\n]|\\[^\n])*\/[a-z]*/y],
  ["directive", /%[a-z_]*/y],
  ["terminal", /_*[A-Z][A-Z0-9_-]*/y],
  ["name", /[!?]*_*[a-z][A-Za-z0-9_-]*/y],
  ["number", /-?\d{1,6}/y],
  ["sign", /\.\.|->|[.:|()[\]{},~?*+<>&]/y],
];

/** The last token is the end. @throws GrammarError */
export function larkTokens(text: string): readonly LarkToken[] {
  const tokens: LarkToken[] = [];
  let line = 1;
  let depth = 0;
  for (let at = 0; at < text.length; ) {
    const [kind, found] = tokenAt(text, at, line);
    at += found.length;
    if (kind === "sign") depth += "([".includes(found) ? 1 : ")]".includes(found) ? -1 : 0;
    const isInner = kind === "line-end" && (depth > 0 || isContinued(text, at));
    if (kind !== "blank" && !isInner) tokens.push({ kind, text: found, line });
    line += found.split("\n").length - 1;
  }
  tokens.push({ kind: "line-end", text: "", line }, { kind: "end", text: "", line });
  return tokens;
}

function tokenAt(text: string, at: number, line: number): readonly [LarkToken["kind"] | "blank", string] {
  for (const [kind, pattern] of PATTERNS) {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    if (found !== undefined && found !== "") return [kind, found];
  }
  throw new GrammarError(`line ${line}: unexpected '${String.fromCodePoint(text.codePointAt(at) ?? 0)}'`);
}

/** Alternatives may begin on lines of their own. */
function isContinued(text: string, at: number): boolean {
  return text.startsWith("|", at) || text.startsWith("->", at);
}
