/** `value is test`. Source: Jinja's documentation, "List of Builtin Tests". */
import type { Budget } from "./budget.ts";
import { contains } from "./operators.ts";
import { TemplateError } from "./template-error.ts";
import { Callable, compare, isEqual, isFloat, isInteger, itemsOf, numberOf, Undefined, type Value } from "./values.ts";

type Test = (value: Value, argument: Value) => boolean;

/** They may look at every part of their operands. */
const COMPARISONS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ...aliases(["eq", "equalto", "=="], isEqual),
  ...aliases(["ne", "!="], (a, b) => !isEqual(a, b)),
  ...aliases(["lt", "lessthan", "<"], (a, b) => compare(a, b, "<") < 0),
  ...aliases(["le", "<="], (a, b) => compare(a, b, "<=") <= 0),
  ...aliases(["gt", "greaterthan", ">"], (a, b) => compare(a, b, ">") > 0),
  ...aliases(["ge", ">="], (a, b) => compare(a, b, ">=") >= 0),
]);

const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ["defined", (value) => !(value instanceof Undefined)],
  ["undefined", (value) => value instanceof Undefined],
  ["none", (value) => value === null],
  ["boolean", (value) => typeof value === "boolean"],
  ["true", (value) => value === true],
  ["false", (value) => value === false],
  ["string", (value) => typeof value === "string"],
  ["number", (value) => numberOf(value) !== undefined],
  ["integer", isInteger],
  ["float", isFloat],
  ["mapping", (value) => value instanceof Map],
  ["sequence", (value) => isSequence(value)],
  ["iterable", (value) => isSequence(value) || value instanceof Undefined],
  ["callable", (value) => value instanceof Callable],
  ["odd", (value) => Math.abs(numberOf(value) ?? 0) % 2 === 1],
  ["even", (value) => (numberOf(value) ?? 1) % 2 === 0],
  ["divisibleby", (value, by) => (numberOf(value) ?? 1) % (numberOf(by) ?? 0) === 0],
  ["lower", (value) => typeof value === "string" && value !== value.toUpperCase() && value === value.toLowerCase()],
  ["upper", (value) => typeof value === "string" && value !== value.toLowerCase() && value === value.toUpperCase()],
  ["sameas", (value, other) => value === other],
  ["in", (value, container) => contains(container, value)],
  ...COMPARISONS,
]);

function aliases(names: readonly string[], test: Test): readonly (readonly [string, Test])[] {
  return names.map((name) => [name, test]);
}

/** @throws TemplateError for an unknown test */
export function runTest(name: string, value: Value, argument: Value, budget: Budget): boolean {
  const test = TESTS.get(name);
  if (test === undefined) throw new TemplateError(`No test named '${name}'.`);
  if (name === "in" || COMPARISONS.has(name)) {
    budget.whole(value);
    budget.whole(argument);
  }
  return test(value, argument);
}

function isSequence(value: Value): boolean {
  return typeof value === "string" || value instanceof Map || itemsOf(value) !== undefined;
}
