/** A grammar of texts as a tree, and its EBNF in the form that the engine's guides take. Source: xgrammar's documentation, "EBNF". */
import { type CodePoints, common, without } from "./code-points.ts";

export type Expression =
  | { readonly kind: "points"; readonly points: CodePoints }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "rule"; readonly name: string }
  | { readonly kind: "sequence"; readonly parts: readonly Expression[] }
  | { readonly kind: "either"; readonly options: readonly Expression[] }
  /** `max` undefined: without end. */
  | { readonly kind: "repeat"; readonly part: Expression; readonly min: number; readonly max: number | undefined };

export interface TextGrammar {
  readonly rules: ReadonlyMap<string, Expression>;
  readonly start: Expression;
}

export const EMPTY: Expression = { kind: "sequence", parts: [] };

export function sequence(parts: readonly Expression[]): Expression {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : { kind: "sequence", parts };
}

export function either(options: readonly Expression[]): Expression {
  const [only] = options;
  return options.length === 1 && only !== undefined ? only : { kind: "either", options };
}

/** How a character stands in the output. */
export type Encoding = "plain" | "json-string";

/** EBNF of the texts between `before` and `after`; its first rule is `root`. */
export function ebnfOf({ rules, start }: TextGrammar, encoding: Encoding, before = "", after = ""): string {
  const names = new Map([...rules.keys()].map((name, i) => [name, `input_${i}`]));
  const write = (expression: Expression): string => written(expression, encoding, names);
  const ends = [before, after].map((text) => (text === "" ? "" : `${quoted(text)} `));
  const root = `root ::= ${ends[0]}(${write(start)}) ${ends[1]}`.trimEnd();
  return [root, ...[...rules].map(([name, rule]) => `${names.get(name)} ::= ${write(rule)}`)].join("\n");
}

function written(expression: Expression, encoding: Encoding, names: ReadonlyMap<string, string>): string {
  switch (expression.kind) {
    case "points":
      return encoding === "plain" ? classOf(expression.points) : escapedClass(expression.points);
    case "text":
      return quoted(encoding === "plain" ? expression.text : JSON.stringify(expression.text).slice(1, -1));
    case "rule":
      return names.get(expression.name) ?? "";
    case "sequence":
      return expression.parts.length === 0
        ? '""'
        : `(${expression.parts.map((part) => written(part, encoding, names)).join(" ")})`;
    case "either":
      return `(${expression.options.map((option) => written(option, encoding, names)).join(" | ")})`;
    case "repeat":
      return `(${written(expression.part, encoding, names)})${countOf(expression)}`;
  }
}

function countOf({ min, max }: { readonly min: number; readonly max: number | undefined }): string {
  if (max !== undefined) return min === 0 && max === 1 ? "?" : `{${min},${max}}`;
  if (min > 1) return `{${min},}`;
  return min === 1 ? "+" : "*";
}

const QUOTE_AND_BACKSLASH: CodePoints = [
  [0x22, 0x22],
  [0x5c, 0x5c],
];
const CONTROLS: CodePoints = [[0, 0x1f]];
/** RFC 8259, 7: letters that stand for a control character behind a backslash. */
const SHORT_ESCAPES: readonly (readonly [point: number, letter: string])[] = [
  [8, "b"],
  [9, "t"],
  [10, "n"],
  [12, "f"],
  [13, "r"],
];

/** Characters of a JSON string, each in one form alone: that of `JSON.stringify`. */
function escapedClass(points: CodePoints): string {
  const bare = without(without(points, QUOTE_AND_BACKSLASH), CONTROLS);
  const isIn = (point: number): boolean => points.some(([first, last]) => first <= point && point <= last);
  const marks = common(points, QUOTE_AND_BACKSLASH).map(([point]) => String.fromCodePoint(point));
  const letters = SHORT_ESCAPES.filter(([point]) => isIn(point)).map(([, letter]) => letter);
  const short = [...marks, ...letters].map((sign) => quoted(`\\${sign}`));
  const shortPoints = SHORT_ESCAPES.map(([point]): readonly [number, number] => [point, point]);
  const long = longEscapes(without(common(points, CONTROLS), shortPoints));
  const options = [...(bare.length === 0 ? [] : [classOf(bare)]), ...short, ...long];
  return `(${options.join(" | ")})`;
}

/** The other control characters: four hexadecimal digits, in lower case. */
function longEscapes(controls: CodePoints): readonly string[] {
  return [0, 0x10].flatMap((base) => {
    const points = common(controls, [[base, base + 0xf]]);
    const digits = points.flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, i) => first + i - base),
    );
    if (digits.length === 0) return [];
    return [`${quoted(`\\u00${base === 0 ? "0" : "1"}`)} [${digits.map((digit) => digit.toString(16)).join("")}]`];
  });
}

function classOf(points: CodePoints): string {
  const ranges = points.map(([first, last]) => {
    return first === last ? signOf(first) : `${signOf(first)}-${signOf(last)}`;
  });
  return `[${ranges.join("")}]`;
}

function signOf(point: number): string {
  const char = String.fromCodePoint(point);
  if (/[A-Za-z0-9 ]/.test(char)) return char;
  return point > 0xffff ? `\\U${hex(point, 8)}` : `\\u${hex(point, 4)}`;
}

function quoted(text: string): string {
  return `"${[...text].map((char) => signOf(char.codePointAt(0) ?? 0)).join("")}"`;
}

function hex(point: number, digits: number): string {
  return point.toString(16).padStart(digits, "0");
}
