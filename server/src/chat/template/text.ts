/** Values as text: Python's `str` and `repr`, and `json.dumps` as transformers' filter `tojson` calls it. */
import { TemplateError } from "./template-error.ts";
import {
  type Dict,
  Float,
  isFloat,
  itemsOf,
  Namespace,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts";

/** Beyond these powers of ten Python writes an exponent. Source: CPython, float_repr_style "short". */
const MIN_EXPONENT = -4;
const MAX_EXPONENT = 16;

/** Python's `str`. */
export function textOf(value: Value): string {
  if (typeof value === "string") return value;
  return value instanceof Undefined ? "" : reprOf(value);
}

/** Python's `repr`. */
export function reprOf(value: Value): string {
  if (typeof value === "string") return reprText(value);
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  const number = numberOf(value);
  if (number !== undefined) return isFloat(value) ? floatText(number) : String(number);
  return reprCollection(value);
}

function reprCollection(value: Value): string {
  if (value instanceof Map) {
    return `{${[...value].map(([key, item]) => `${reprOf(key)}: ${reprOf(item)}`).join(", ")}}`;
  }
  if (value instanceof Tuple) {
    const [first, ...more] = value.items.map(reprOf);
    return more.length === 0 && first !== undefined ? `(${first},)` : `(${value.items.map(reprOf).join(", ")})`;
  }
  if (Array.isArray(value)) return `[${value.map(reprOf).join(", ")}]`;
  if (value instanceof Namespace) return `<Namespace ${reprOf(new Map(value.attributes))}>`;
  return value instanceof Undefined ? "Undefined" : `<${typeName(value)}>`;
}

const REPR_ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is escaped
const NOT_PRINTABLE = /[\\\x00-\x1f\x7f-\xa0\xad]/g;

function reprText(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = text.replace(
    NOT_PRINTABLE,
    (char) => REPR_ESCAPES[char] ?? `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return quote + (quote === "'" ? escaped.replaceAll("'", "\\'") : escaped) + quote;
}

/** The shortest digits that read back as the same float, in Python's notation. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const [digits = "", power = "0"] = value.toExponential().split("e");
  const exponent = Number(power);
  if (value !== 0 && (exponent < MIN_EXPONENT || exponent >= MAX_EXPONENT)) {
    const sign = exponent < 0 ? "-" : "+";
    return `${digits}e${sign}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  const text = Object.is(value, -0) ? "-0" : exponent < 0 ? value.toFixed(decimals(digits, exponent)) : String(value);
  return text.includes(".") ? text : `${text}.0`;
}

function decimals(digits: string, exponent: number): number {
  return digits.replace(/^-?\d\.?/, "").length - exponent;
}

export interface JsonStyle {
  /** Text of one level; undefined: one line. */
  readonly indent: string | undefined;
  readonly itemSeparator: string;
  readonly keySeparator: string;
  readonly sortKeys: boolean;
  readonly asciiOnly: boolean;
}

/** Python's `json.dumps`. @throws TemplateError for values that JSON has not */
export function jsonOf(value: Value, style: JsonStyle, lineBreak = "\n"): string {
  if (typeof value === "string") return jsonText(value, style.asciiOnly);
  if (value === null) return "null";
  if (typeof value === "boolean") return String(value);
  const number = numberOf(value);
  if (number !== undefined) return jsonNumber(number, value);
  if (value instanceof Map) return jsonDict(value, style, lineBreak);
  const items = itemsOf(value);
  if (items === undefined) throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`);
  const inner = lineBreak + (style.indent ?? "");
  return enclose(
    "[",
    "]",
    items.map((item) => jsonOf(item, style, inner)),
    style,
    lineBreak,
  );
}

function jsonDict(dict: Dict, style: JsonStyle, lineBreak: string): string {
  const inner = lineBreak + (style.indent ?? "");
  const entries = [...dict].map(([key, value]) => [keyText(key), value] as const);
  if (style.sortKeys) entries.sort(([a], [b]) => (a < b ? -1 : Number(a > b)));
  const members = entries.map(
    ([key, value]) => jsonText(key, style.asciiOnly) + style.keySeparator + jsonOf(value, style, inner),
  );
  return enclose("{", "}", members, style, lineBreak);
}

function enclose(open: string, close: string, parts: readonly string[], style: JsonStyle, lineBreak: string): string {
  if (parts.length === 0) return open + close;
  if (style.indent === undefined) return open + parts.join(style.itemSeparator) + close;
  const inner = lineBreak + style.indent;
  return open + inner + parts.join(style.itemSeparator.trimEnd() + inner) + lineBreak + close;
}

function keyText(key: string | number | boolean | null): string {
  return typeof key === "string" ? key : jsonOf(key, DEFAULT_JSON);
}

function jsonNumber(number: number, value: Value): string {
  if (!Number.isFinite(number)) return Number.isNaN(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  return isFloat(value) || value instanceof Float ? floatText(number) : String(number);
}

/** As Python writes it: only control characters, quotes and backslashes are escaped, and on request all beyond ASCII. */
function jsonText(text: string, asciiOnly: boolean): string {
  const json = JSON.stringify(text);
  if (!asciiOnly) return json;
  return json.replace(/[\u007f-\uffff]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export const DEFAULT_JSON: JsonStyle = {
  indent: undefined,
  itemSeparator: ", ",
  keySeparator: ": ",
  sortKeys: false,
  asciiOnly: false,
};
