/** `value | filter`. Source: Jinja's documentation, "List of Builtin Filters"; `tojson` is that of transformers' chat templates. */
import type { Budget } from "./budget.ts";
import { argument, integerArgument, NO_ARGUMENTS, required, textArgument } from "./call-arguments.ts";
import { memberByPath } from "./members.ts";
import { operate } from "./operators.ts";
import { itemAt } from "./slices.ts";
import { capitalize, replaceText, strip, title } from "./string-methods.ts";
import { TemplateError } from "./template-error.ts";
import { DEFAULT_JSON, jsonOf, textOf } from "./text.ts";
import { runTest } from "./value-tests.ts";
import {
  type CallArguments,
  compare,
  float,
  isEqual,
  isTrue,
  iterate,
  lengthOf,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts";

type Filter = (value: Value, args: CallArguments, budget: Budget) => Value;

const FILTERS: ReadonlyMap<string, Filter> = new Map<string, Filter>([
  ["tojson", (value, args, budget) => budget.text(toJson(value, args))],
  ["string", (value, _, budget) => budget.text(textOf(value))],
  ["safe", (value) => value],
  ["trim", (value, args) => strip(textOf(value), textArgument(args, 0, "chars"), true, true)],
  ["upper", (value) => textOf(value).toUpperCase()],
  ["lower", (value) => textOf(value).toLowerCase()],
  ["capitalize", (value) => capitalize(textOf(value))],
  ["title", (value) => title(textOf(value))],
  ["replace", (value, args, budget) => replace(value, args, budget)],
  ["indent", (value, args, budget) => budget.text(indent(textOf(value), args))],
  ["format", (value, args, budget) => operate("%", textOf(value), new Tuple(args.positional), budget)],
  ["wordcount", (value) => textOf(value).split(/\s+/).filter(Boolean).length],
  ["length", (value) => length(value)],
  ["count", (value) => length(value)],
  ["first", (value, _, budget) => edge(value, 0, "first", budget)],
  ["last", (value, _, budget) => edge(value, -1, "last", budget)],
  ["list", (value) => [...iterate(value)]],
  ["reverse", (value, _, budget) => reverse(value, budget)],
  ["join", (value, args, budget) => budget.text(join(value, args, budget))],
  ["items", (value) => items(value)],
  ["dictsort", (value, args) => dictSort(value, args)],
  ["sort", (value, args, budget) => sort(value, args, budget)],
  ["unique", (value, args, budget) => unique(value, args, budget)],
  ["sum", (value, args, budget) => sum(value, args, budget)],
  ["min", (value) => extreme(value, -1)],
  ["max", (value) => extreme(value, 1)],
  ["map", (value, args, budget) => map(value, args, budget)],
  ["select", (value, args, budget) => select(value, args, budget, true)],
  ["reject", (value, args, budget) => select(value, args, budget, false)],
  ["selectattr", (value, args, budget) => selectByAttribute(value, args, budget, true)],
  ["rejectattr", (value, args, budget) => selectByAttribute(value, args, budget, false)],
  ["int", (value, args) => toInteger(value, givenOr(argument(args, 0, "default"), 0))],
  ["float", (value, args) => toFloat(value, givenOr(argument(args, 0, "default"), float(0)))],
  ["abs", (value) => Math.abs(numberOf(value) ?? 0)],
  ["round", (value, args) => float(round(numberOf(value) ?? 0, integerArgument(args, 0, "precision") ?? 0))],
  ["default", (value, args) => defaulted(value, args)],
  ["d", (value, args) => defaulted(value, args)],
  ["attr", (value, args, budget) => memberByPath(value, required(args.positional[0], "name"), budget)],
]);

/** @throws TemplateError for an unknown filter, or values that it does not take */
export function runFilter(name: string, value: Value, args: CallArguments, budget: Budget): Value {
  const filter = FILTERS.get(name);
  if (filter === undefined) throw new TemplateError(`No filter named '${name}'.`);
  if (READING.has(name)) for (const read of [value, ...args.positional]) budget.whole(read);
  else budget.items(value);
  const result = filter(value, args, budget);
  budget.items(result);
  return result;
}

/** Filters that may look at every part of what they are given. */
const READING = new Set(
  "tojson string trim upper lower capitalize title replace indent format wordcount join min max".split(" "),
);

/** Arguments are those of transformers' filter: ensure_ascii, indent, separators, sort_keys. */
function toJson(value: Value, args: CallArguments): string {
  const indent = argument(args, 1, "indent") ?? null;
  const separators = argument(args, 2, "separators") ?? null;
  const [item, key] = separators === null ? [undefined, undefined] : iterate(separators).map(textOf);
  return jsonOf(value, {
    indent: indent === null ? undefined : typeof indent === "string" ? indent : " ".repeat(indentWidth(indent)),
    itemSeparator: item ?? DEFAULT_JSON.itemSeparator,
    keySeparator: key ?? DEFAULT_JSON.keySeparator,
    sortKeys: isTrue(argument(args, 3, "sort_keys") ?? false),
    asciiOnly: isTrue(argument(args, 0, "ensure_ascii") ?? false),
  });
}

const MAX_INDENT = 16;

function indentWidth(value: Value): number {
  return Math.min(Math.max(numberOf(value) ?? 0, 0), MAX_INDENT);
}

function replace(value: Value, args: CallArguments, budget: Budget): string {
  const old = textOf(required(argument(args, 0, "old"), "old"));
  const replacement = textOf(required(argument(args, 1, "new"), "new"));
  return replaceText(textOf(value), old, replacement, integerArgument(args, 2, "count") ?? -1, budget);
}

const DEFAULT_INDENT = 4;

function indent(text: string, args: CallArguments): string {
  const width = argument(args, 0, "width") ?? DEFAULT_INDENT;
  const prefix = typeof width === "string" ? width : " ".repeat(indentWidth(width));
  const isFirst = isTrue(argument(args, 1, "first") ?? false);
  const isBlank = isTrue(argument(args, 2, "blank") ?? false);
  return text
    .split("\n")
    .map((line, i) => ((i === 0 && !isFirst) || (line === "" && !isBlank && i > 0) ? line : prefix + line))
    .join("\n");
}

function edge(value: Value, index: number, name: string, budget: Budget): Value {
  const found = itemAt(typeof value === "string" ? value : [...iterate(value)], index, budget);
  return found ?? new Undefined(name);
}

function reverse(value: Value, budget: Budget): Value {
  if (typeof value !== "string") return [...iterate(value)].reverse();
  budget.spend(value.length);
  return [...value].reverse().join("");
}

function length(value: Value): number {
  const found = lengthOf(value);
  if (found === undefined) throw new TemplateError(`object of type '${typeName(value)}' has no len()`);
  return found;
}

function join(value: Value, args: CallArguments, budget: Budget): string {
  const attribute = argument(args, 1, "attribute");
  const parts = iterate(value).map((item) =>
    textOf(attribute === undefined ? item : memberByPath(item, attribute, budget)),
  );
  return parts.join(textArgument(args, 0, "d") ?? "");
}

function items(value: Value): Value {
  if (value instanceof Undefined) return [];
  if (value instanceof Map) return [...value].map(([key, item]) => new Tuple([key, item]));
  throw new TemplateError("Can only get item pairs from a mapping.");
}

function dictSort(value: Value, args: CallArguments): Value {
  if (!(value instanceof Map)) throw new TemplateError("dictsort takes a dict");
  const isByValue = textArgument(args, 1, "by") === "value";
  const keyOf = ([key, item]: readonly [Value, Value]): Value => folded(isByValue ? item : key);
  const pairs = [...value].sort((a, b) => compare(keyOf(a), keyOf(b)));
  if (isTrue(argument(args, 2, "reverse") ?? false)) pairs.reverse();
  return pairs.map(([key, item]) => new Tuple([key, item]));
}

/** Text is compared without case, as Jinja does by default. */
function folded(value: Value): Value {
  return typeof value === "string" ? value.toLowerCase() : value;
}

function sort(value: Value, args: CallArguments, budget: Budget): Value {
  const attribute = argument(args, 2, "attribute");
  const isSensitive = isTrue(argument(args, 1, "case_sensitive") ?? false);
  const keyOf = (item: Value): Value => {
    const key = attribute === undefined ? item : memberByPath(item, attribute, budget);
    return isSensitive ? key : folded(key);
  };
  const sorted = [...iterate(value)].sort((a, b) => {
    const keys = [keyOf(a), keyOf(b)] as const;
    for (const key of keys) budget.whole(key);
    return compare(...keys);
  });
  return isTrue(argument(args, 0, "reverse") ?? false) ? sorted.reverse() : sorted;
}

function unique(value: Value, args: CallArguments, budget: Budget): Value {
  const attribute = argument(args, 1, "attribute");
  const seen: Value[] = [];
  return iterate(value).filter((item) => {
    const key = folded(attribute === undefined ? item : memberByPath(item, attribute, budget));
    const isSeen = seen.some((other) => {
      budget.whole(key);
      return isEqual(key, other);
    });
    if (isSeen) return false;
    seen.push(key);
    return true;
  });
}

function sum(value: Value, args: CallArguments, budget: Budget): Value {
  const attribute = argument(args, 0, "attribute");
  const start = argument(args, 1, "start") ?? 0;
  return iterate(value).reduce<Value>(
    (total, item) =>
      operate("+", total, attribute === undefined ? item : memberByPath(item, attribute, budget), budget),
    start,
  );
}

function extreme(value: Value, sign: number): Value {
  const [first, ...rest] = iterate(value);
  if (first === undefined) return new Undefined("No aggregated item, sequence was empty.");
  return rest.reduce((best, item) => (sign * compare(folded(item), folded(best)) > 0 ? item : best), first);
}

/** These filters take any false value, None too, for an empty list. */
function iterateOrNothing(value: Value): readonly Value[] {
  return isTrue(value) ? iterate(value) : [];
}

function map(value: Value, args: CallArguments, budget: Budget): Value {
  const attribute = args.named.get("attribute");
  if (attribute !== undefined) {
    const fallback = args.named.get("default");
    return iterateOrNothing(value).map((item) => {
      return memberByPath(item, attribute, budget, fallback);
    });
  }
  const [name, ...positional] = args.positional;
  const filter = textOf(required(name, "filter"));
  return iterateOrNothing(value).map((item) => runFilter(filter, item, { ...NO_ARGUMENTS, positional }, budget));
}

function select(value: Value, args: CallArguments, budget: Budget, keeps: boolean): Value {
  const [test, other = null] = args.positional;
  return iterateOrNothing(value).filter((item) => {
    budget.spend();
    return (test === undefined ? isTrue(item) : runTest(textOf(test), item, other, budget)) === keeps;
  });
}

function selectByAttribute(value: Value, args: CallArguments, budget: Budget, keeps: boolean): Value {
  const [attribute, test, other = null] = args.positional;
  const path = required(attribute, "attribute");
  return iterateOrNothing(value).filter((item) => {
    const member = memberByPath(item, path, budget);
    return (test === undefined ? isTrue(member) : runTest(textOf(test), member, other, budget)) === keeps;
  });
}

function toInteger(value: Value, fallback: Value): Value {
  const number = typeof value === "string" ? Number(value.trim() === "" ? "x" : value) : numberOf(value);
  return number === undefined || !Number.isFinite(number) ? fallback : Math.trunc(number);
}

function toFloat(value: Value, fallback: Value): Value {
  const number = typeof value === "string" ? Number(value.trim() === "" ? "x" : value) : numberOf(value);
  return number === undefined || Number.isNaN(number) ? fallback : float(number);
}

/** Halves go to the even neighbour, as in Python. */
function round(number: number, precision: number): number {
  const scale = 10 ** precision;
  const scaled = number * scale;
  const floor = Math.floor(scaled);
  const isHalf = scaled - floor === 0.5;
  return (isHalf && floor % 2 === 0 ? floor : Math.round(scaled)) / scale;
}

function defaulted(value: Value, args: CallArguments): Value {
  const isEmpty = isTrue(argument(args, 1, "boolean") ?? false) && !isTrue(value);
  return value instanceof Undefined || isEmpty ? givenOr(argument(args, 0, "default_value"), "") : value;
}

/** None is a value, which `??` would pass over. */
function givenOr(value: Value | undefined, missing: Value): Value {
  return value === undefined ? missing : value;
}
