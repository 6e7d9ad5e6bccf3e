/**
 * Values of templates, with Python's meaning: Jinja leaves truth, equality, order and iteration to it. Objects of JavaScript are
 * no values, so that a template reaches no prototype. Source: Python's language reference, "Data model" and "Expressions".
 */
import { TemplateError } from "./template-error.ts";

/** The result of a failed lookup: prints as nothing, is false, has no members. */
export class Undefined {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

/** A float with an integral value; other floats are plain numbers, and so are integers. */
export class Float {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }
}

export class Tuple {
  readonly items: readonly Value[];

  constructor(items: readonly Value[]) {
    this.items = items;
  }
}

/** `namespace()`: its attributes alone may be set from inside a loop. */
export class Namespace {
  readonly attributes: Map<string, Value>;

  constructor(attributes: Map<string, Value>) {
    this.attributes = attributes;
  }
}

export interface CallArguments {
  readonly positional: readonly Value[];
  readonly named: ReadonlyMap<string, Value>;
}

export class Callable {
  readonly name: string;
  readonly call: (args: CallArguments) => Value;

  constructor(name: string, call: (args: CallArguments) => Value) {
    this.name = name;
    this.call = call;
  }
}

export type DictKey = string | number | boolean | null;
export type Dict = Map<DictKey, Value>;
export type Value =
  | Undefined
  | null
  | boolean
  | number
  | Float
  | string
  | Value[]
  | Tuple
  | Dict
  | Namespace
  | Callable;

/** JSON data as values; members that are undefined stay away. Nothing of the original is kept. */
export function fromJson(data: unknown): Value {
  if (Array.isArray(data)) return data.map(fromJson);
  if (typeof data === "object" && data !== null) {
    const entries = Object.entries(data).filter(([, value]) => value !== undefined);
    return new Map(entries.map(([key, value]) => [key, fromJson(value)]));
  }
  if (typeof data === "bigint") return Number(data);
  if (data === null || typeof data === "boolean" || typeof data === "number" || typeof data === "string") return data;
  return new Undefined("");
}

/** A number that Python has as float keeps its type when it is integral. */
export function float(value: number): Value {
  return Number.isInteger(value) ? new Float(value) : value;
}

/** The number of an int, float or bool; undefined for all others. */
export function numberOf(value: Value): number | undefined {
  if (typeof value === "number") return value;
  if (value instanceof Float) return value.value;
  return typeof value === "boolean" ? Number(value) : undefined;
}

export function isFloat(value: Value): boolean {
  return value instanceof Float || (typeof value === "number" && !Number.isInteger(value));
}

export function isInteger(value: Value): value is number {
  return typeof value === "number" && Number.isInteger(value);
}

/** Items of a list or tuple. */
export function itemsOf(value: Value): readonly Value[] | undefined {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple ? value.items : undefined;
}

export function isTrue(value: Value): boolean {
  if (value instanceof Undefined || value === null) return false;
  if (typeof value === "boolean") return value;
  if (typeof value === "string") return value !== "";
  const number = numberOf(value);
  if (number !== undefined) return number !== 0;
  return lengthOf(value) !== 0;
}

/** Undefined for what has no length. A string's counts code points. */
export function lengthOf(value: Value): number | undefined {
  if (typeof value === "string") return codePoints(value);
  if (value instanceof Map) return value.size;
  return value instanceof Undefined ? 0 : itemsOf(value)?.length;
}

const SURROGATE = /[\ud800-\udbff]/;

/** Whether some character takes two units of UTF-16. */
export function hasPairs(text: string): boolean {
  return SURROGATE.test(text);
}

function codePoints(text: string): number {
  return hasPairs(text) ? [...text].length : text.length;
}

/** @throws TemplateError for what cannot be iterated */
export function iterate(value: Value): readonly Value[] {
  if (value instanceof Undefined) return [];
  if (typeof value === "string") return [...value];
  if (value instanceof Map) return [...value.keys()];
  const items = itemsOf(value);
  if (items === undefined) throw new TemplateError(`'${typeName(value)}' object is not iterable`);
  return items;
}

/** Python's name of the type, as its errors print it. */
export function typeName(value: Value): string {
  if (value === null) return "NoneType";
  if (value instanceof Undefined) return "Undefined";
  if (typeof value === "boolean") return "bool";
  if (typeof value === "string") return "str";
  if (isFloat(value)) return "float";
  if (typeof value === "number") return "int";
  if (value instanceof Map) return "dict";
  if (value instanceof Tuple) return "tuple";
  if (value instanceof Namespace) return "Namespace";
  return Array.isArray(value) ? "list" : "function";
}

export function isEqual(a: Value, b: Value): boolean {
  if (a === b) return true;
  if (a instanceof Undefined) return b instanceof Undefined;
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined || y !== undefined) return x === y;
  if (a instanceof Map && b instanceof Map) return isEqualDict(a, b);
  if (a instanceof Tuple !== b instanceof Tuple) return false;
  const [left, right] = [itemsOf(a), itemsOf(b)];
  if (left === undefined || right === undefined || left.length !== right.length) return false;
  return left.every((item, i) => isEqual(item, right[i] ?? null));
}

function isEqualDict(a: Dict, b: Dict): boolean {
  if (a.size !== b.size) return false;
  for (const [key, value] of a) {
    const other = b.get(key);
    if (other === undefined || !isEqual(value, other)) return false;
  }
  return true;
}

/** Negative, 0 or positive. Text is ordered by code points. @throws TemplateError for types without an order */
export function compare(a: Value, b: Value, operator = "<"): number {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined && y !== undefined) return x - y;
  if (typeof a === "string" && typeof b === "string") return compareText(a, b);
  const [left, right] = [itemsOf(a), itemsOf(b)];
  if (left !== undefined && right !== undefined && typeName(a) === typeName(b)) {
    const at = left.findIndex((item, i) => i >= right.length || !isEqual(item, right[i] ?? null));
    if (at < 0 || at >= right.length) return left.length - right.length;
    return compare(left[at] ?? null, right[at] ?? null, operator);
  }
  throw new TemplateError(`'${operator}' not supported between instances of '${typeName(a)}' and '${typeName(b)}'`);
}

/** By code points: UTF-16 puts characters above U+FFFF before U+E000. */
function compareText(a: string, b: string): number {
  if (!hasPairs(a) && !hasPairs(b)) return a < b ? -1 : Number(a > b);
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

/** @throws TemplateError for values that cannot be keys */
export function dictKey(value: Value): DictKey {
  const number = numberOf(value);
  if (number !== undefined && typeof value !== "boolean") return number;
  if (typeof value === "string" || typeof value === "boolean" || value === null) return value;
  throw new TemplateError(`unhashable type: '${typeName(value)}'`);
}
