/** Methods of text. Source: Python's library reference, "String Methods". */
import type { Budget } from "./budget.ts";
import { argument, integerArgument, required, textArgument } from "./call-arguments.ts";
import { formatBraces } from "./format-braces.ts";
import { TemplateError } from "./template-error.ts";
import { textOf } from "./text.ts";
import { type CallArguments, itemsOf, iterate, Tuple, type Value } from "./values.ts";

export type StringMethod = (text: string, args: CallArguments, budget: Budget) => Value;

export const STRING_METHODS: ReadonlyMap<string, StringMethod> = new Map<string, StringMethod>([
  ["strip", (text, args) => strip(text, textArgument(args, 0, "chars"), true, true)],
  ["lstrip", (text, args) => strip(text, textArgument(args, 0, "chars"), true, false)],
  ["rstrip", (text, args) => strip(text, textArgument(args, 0, "chars"), false, true)],
  ["split", (text, args) => split(text, args, false)],
  ["rsplit", (text, args) => split(text, args, true)],
  ["splitlines", (text, args) => splitLines(text, argument(args, 0, "keepends") === true)],
  ["startswith", (text, args) => edges(args).some((edge) => text.startsWith(edge))],
  ["endswith", (text, args) => edges(args).some((edge) => text.endsWith(edge))],
  ["replace", (text, args, budget) => replace(text, args, budget)],
  ["upper", (text) => text.toUpperCase()],
  ["lower", (text) => text.toLowerCase()],
  ["casefold", (text) => text.toLowerCase()],
  ["title", (text) => title(text)],
  ["capitalize", (text) => capitalize(text)],
  ["find", (text, args) => text.indexOf(required(textArgument(args, 0, "sub"), "sub"))],
  ["rfind", (text, args) => text.lastIndexOf(required(textArgument(args, 0, "sub"), "sub"))],
  ["index", (text, args) => found(text.indexOf(required(textArgument(args, 0, "sub"), "sub")))],
  ["rindex", (text, args) => found(text.lastIndexOf(required(textArgument(args, 0, "sub"), "sub")))],
  ["count", (text, args) => text.split(required(textArgument(args, 0, "sub"), "sub")).length - 1],
  ["join", (text, args, budget) => budget.text(join(text, required(args.positional[0], "iterable")))],
  ["format", (text, args, budget) => budget.text(formatBraces(text, args))],
  ["removeprefix", (text, args) => removePrefix(text, required(textArgument(args, 0, "prefix"), "prefix"))],
  ["removesuffix", (text, args) => removeSuffix(text, required(textArgument(args, 0, "suffix"), "suffix"))],
  [
    "partition",
    (text, args) => partition(text, required(textArgument(args, 0, "sep"), "sep"), text.indexOf.bind(text)),
  ],
  ["rpartition", (text, args) => rpartition(text, required(textArgument(args, 0, "sep"), "sep"))],
  ["ljust", (text, args, budget) => justified(args, budget, (width, fill) => text.padEnd(width, fill))],
  ["rjust", (text, args, budget) => justified(args, budget, (width, fill) => text.padStart(width, fill))],
  ["zfill", (text, args, budget) => justified(args, budget, (width) => text.padStart(width, "0"))],
  ["isdigit", (text) => /^\p{Nd}+$/u.test(text)],
  ["isdecimal", (text) => /^\p{Nd}+$/u.test(text)],
  ["isnumeric", (text) => /^\p{N}+$/u.test(text)],
  ["isalpha", (text) => /^\p{L}+$/u.test(text)],
  ["isalnum", (text) => /^[\p{L}\p{N}]+$/u.test(text)],
  ["isspace", (text) => text !== "" && text.trim() === ""],
  ["isupper", (text) => text !== text.toLowerCase() && text === text.toUpperCase()],
  ["islower", (text) => text !== text.toUpperCase() && text === text.toLowerCase()],
]);

/** White space by default, else any run of the given characters. */
export function strip(text: string, chars: string | undefined, atStart: boolean, atEnd: boolean): string {
  if (chars === undefined) {
    const left = atStart ? text.trimStart() : text;
    return atEnd ? left.trimEnd() : left;
  }
  const set = new Set(chars);
  const points = [...text];
  let from = 0;
  let to = points.length;
  while (atStart && from < to && set.has(points[from] ?? "")) from += 1;
  while (atEnd && to > from && set.has(points[to - 1] ?? "")) to -= 1;
  return points.slice(from, to).join("");
}

function split(text: string, args: CallArguments, isFromEnd: boolean): Value[] {
  const separator = textArgument(args, 0, "sep");
  const limit = integerArgument(args, 1, "maxsplit") ?? -1;
  if (separator === "") throw new TemplateError("empty separator");
  if (separator === undefined) return splitSpace(text, limit, isFromEnd);
  const parts = text.split(separator);
  if (limit < 0 || parts.length <= limit + 1) return parts;
  if (isFromEnd) {
    const head = parts.slice(0, parts.length - limit).join(separator);
    return [head, ...parts.slice(parts.length - limit)];
  }
  return [...parts.slice(0, limit), parts.slice(limit).join(separator)];
}

/** Runs of white space separate, and none is at the ends. */
function splitSpace(text: string, limit: number, isFromEnd: boolean): Value[] {
  const words = [...text.matchAll(/\S+/g)];
  if (limit < 0 || words.length <= limit + 1) return words.map(([word]) => word);
  if (isFromEnd) {
    const kept = words.slice(words.length - limit);
    return [text.slice(0, kept[0]?.index).trimEnd(), ...kept.map(([word]) => word)];
  }
  return [...words.slice(0, limit).map(([word]) => word), text.slice(words[limit]?.index)];
}

function splitLines(text: string, keepsEnds: boolean): Value[] {
  const lines = text.match(/[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$/g) ?? [];
  return keepsEnds ? [...lines] : lines.map((line) => line.replace(/\r?\n$|\r$/, ""));
}

function edges(args: CallArguments): readonly string[] {
  const given = required(args.positional[0], "prefix");
  return (itemsOf(given) ?? [given]).map((edge) => {
    if (typeof edge === "string") return edge;
    throw new TemplateError("startswith and endswith take a str or a tuple of str");
  });
}

function replace(text: string, args: CallArguments, budget: Budget): string {
  const old = required(textArgument(args, 0, "old"), "old");
  const replacement = required(textArgument(args, 1, "new"), "new");
  const limit = integerArgument(args, 2, "count") ?? -1;
  return replaceText(text, old, replacement, limit, budget);
}

/** The length is known, and paid for, before the text is made. */
export function replaceText(text: string, old: string, replacement: string, limit: number, budget: Budget): string {
  const parts = text.split(old);
  const count = limit < 0 ? parts.length - 1 : Math.min(limit, parts.length - 1);
  budget.chars(text.length + Math.max(count * (replacement.length - old.length), 0));
  if (limit < 0 && old !== "") return parts.join(replacement);
  if (old === "") return limit === 0 ? text : replacement + parts.join(replacement) + replacement;
  return [...parts.slice(0, count).map((part) => part + replacement), parts.slice(count).join(old)].join("");
}

export function title(text: string): string {
  return text.toLowerCase().replace(/(^|[^\p{L}])(\p{L})/gu, (_, before, letter) => before + letter.toUpperCase());
}

export function capitalize(text: string): string {
  const [first = "", ...rest] = text;
  return first.toUpperCase() + rest.join("").toLowerCase();
}

function found(index: number): number {
  if (index < 0) throw new TemplateError("substring not found");
  return index;
}

export function join(separator: string, values: Value): string {
  return iterate(values)
    .map((value, i) => {
      if (typeof value === "string") return value;
      throw new TemplateError(`sequence item ${i}: expected str instance, ${textOf(value)} found`);
    })
    .join(separator);
}

function removePrefix(text: string, prefix: string): string {
  return text.startsWith(prefix) ? text.slice(prefix.length) : text;
}

function removeSuffix(text: string, suffix: string): string {
  return suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
}

function partition(text: string, separator: string, find: (separator: string) => number): Value {
  const at = find(separator);
  if (at < 0) return new Tuple([text, "", ""]);
  return new Tuple([text.slice(0, at), separator, text.slice(at + separator.length)]);
}

function rpartition(text: string, separator: string): Value {
  if (!text.includes(separator)) return new Tuple(["", "", text]);
  return partition(text, separator, text.lastIndexOf.bind(text));
}

function justified(args: CallArguments, budget: Budget, pad: (width: number, fill: string) => string): string {
  const width = required(integerArgument(args, 0, "width"), "width");
  budget.chars(Math.max(width, 0));
  return pad(width, textArgument(args, 1, "fillchar") ?? " ");
}
