/** Binary operators with Python's meaning. Source: Python's language reference, "Expressions". */
import type { Budget } from "./budget.ts";
import { formatPercent } from "./format-percent.ts";
import { TemplateError } from "./template-error.ts";
import { textOf } from "./text.ts";
import {
  compare,
  dictKey,
  float,
  isEqual,
  isFloat,
  itemsOf,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts";

type Operator = (left: Value, right: Value, budget: Budget) => Value;

const OPERATORS: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ["==", (a, b) => isEqual(a, b)],
  ["!=", (a, b) => !isEqual(a, b)],
  ["<", (a, b) => compare(a, b, "<") < 0],
  ["<=", (a, b) => compare(a, b, "<=") <= 0],
  [">", (a, b) => compare(a, b, ">") > 0],
  [">=", (a, b) => compare(a, b, ">=") >= 0],
  ["in", (a, b) => contains(b, a)],
  ["not in", (a, b) => !contains(b, a)],
  ["~", (a, b, budget) => budget.text(textOf(a) + textOf(b))],
  ["+", add],
  ["-", (a, b) => arithmetic("-", a, b, (x, y) => x - y)],
  ["*", multiply],
  ["/", (a, b) => float(arithmeticNumbers("/", a, b, divide))],
  ["//", (a, b) => arithmetic("//", a, b, (x, y) => Math.floor(divide(x, y)))],
  ["%", modulo],
  ["**", (a, b) => arithmetic("**", a, b, (x, y) => x ** y)],
]);

/** Operators that may look at every part of their operands. */
const READING = new Set(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "~", "%"]);

/** A key is found in a dict without a look at the others. */
function payToRead(operator: string, left: Value, right: Value, budget: Budget): void {
  budget.whole(left);
  if (!(right instanceof Map && operator.endsWith("in"))) budget.whole(right);
}

/** @throws TemplateError for operands without this operator */
export function operate(operator: string, left: Value, right: Value, budget: Budget): Value {
  const run = OPERATORS.get(operator);
  if (run === undefined) throw new TemplateError(`unknown operator ${operator}`);
  if (READING.has(operator)) payToRead(operator, left, right, budget);
  return run(left, right, budget);
}

/** Python's `in`. */
export function contains(container: Value, item: Value): boolean {
  if (container instanceof Undefined) return false;
  if (container instanceof Map) return container.has(dictKey(item));
  if (typeof container === "string") {
    if (typeof item === "string") return container.includes(item);
    throw new TemplateError(`'in <string>' requires string as left operand, not ${typeName(item)}`);
  }
  const items = itemsOf(container);
  if (items === undefined) throw new TemplateError(`argument of type '${typeName(container)}' is not iterable`);
  return items.some((one) => isEqual(one, item));
}

function add(a: Value, b: Value, budget: Budget): Value {
  if (typeof a === "string" && typeof b === "string") return budget.text(a + b);
  if (Array.isArray(a) && Array.isArray(b)) return joined(a, b, budget);
  if (a instanceof Tuple && b instanceof Tuple) return new Tuple(joined(a.items, b.items, budget));
  if (typeof a === "string" && !(b instanceof Undefined)) {
    throw new TemplateError(`can only concatenate str (not "${typeName(b)}") to str`);
  }
  return arithmetic("+", a, b, (x, y) => x + y);
}

function joined(a: readonly Value[], b: readonly Value[], budget: Budget): Value[] {
  budget.spend(a.length + b.length);
  return [...a, ...b];
}

function multiply(a: Value, b: Value, budget: Budget): Value {
  if (typeof a === "string" && typeof b === "number") return repeated(a, b, budget);
  if (typeof b === "string" && typeof a === "number") return repeated(b, a, budget);
  if (Array.isArray(a) && typeof b === "number") {
    const times = Math.max(Math.trunc(b), 0);
    budget.spend(a.length * times);
    return Array.from({ length: times }, () => a).flat();
  }
  return arithmetic("*", a, b, (x, y) => x * y);
}

function repeated(text: string, times: number, budget: Budget): string {
  const count = Math.max(Math.trunc(times), 0);
  budget.chars(text.length * count);
  return text.repeat(count);
}

function modulo(a: Value, b: Value, budget: Budget): Value {
  if (typeof a === "string") return budget.text(formatPercent(a, b));
  return arithmetic("%", a, b, (x, y) => {
    if (y === 0) throw new TemplateError("integer modulo by zero");
    return x - y * Math.floor(x / y);
  });
}

function divide(x: number, y: number): number {
  if (y === 0) throw new TemplateError("division by zero");
  return x / y;
}

/** Integers stay integers, as in Python. */
function arithmetic(name: string, a: Value, b: Value, run: (x: number, y: number) => number): Value {
  const result = arithmeticNumbers(name, a, b, run);
  return isFloat(a) || isFloat(b) ? float(result) : result;
}

function arithmeticNumbers(name: string, a: Value, b: Value, run: (x: number, y: number) => number): number {
  const [x, y] = [numberOf(a), numberOf(b)];
  if (x !== undefined && y !== undefined) return run(x, y);
  for (const value of [a, b]) if (value instanceof Undefined) throw new TemplateError(`'${value.name}' is undefined`);
  throw new TemplateError(`unsupported operand type(s) for ${name}: '${typeName(a)}' and '${typeName(b)}'`);
}
