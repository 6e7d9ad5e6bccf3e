/** The value of an expression. Source: Jinja's documentation, "Expressions". */
import type { Argument, Call, Expression, Identifier, Member, Slice } from "./ast.ts";
import type { Budget } from "./budget.ts";
import { NO_ARGUMENTS } from "./call-arguments.ts";
import { runFilter } from "./filters.ts";
import { attributeOf, itemOf } from "./members.ts";
import { operate } from "./operators.ts";
import type { Scope } from "./scope.ts";
import { sliceOf } from "./slices.ts";
import { TemplateError } from "./template-error.ts";
import { runTest } from "./value-tests.ts";
import {
  type CallArguments,
  Callable,
  dictKey,
  Float,
  float,
  isFloat,
  isTrue,
  iterate,
  numberOf,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.ts";

const CONSTANTS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ["true", true],
  ["True", true],
  ["false", false],
  ["False", false],
  ["none", null],
  ["None", null],
]);

/** @throws TemplateError */
export function evaluate(node: Expression, scope: Scope, budget: Budget): Value {
  budget.spend();
  switch (node.type) {
    case "Identifier":
      return valueOfName(node.value, scope);
    case "StringLiteral":
    case "IntegerLiteral":
      return node.value;
    case "FloatLiteral":
      return float(node.value);
    case "MemberExpression":
      return evaluateMember(node, scope, budget);
    case "CallExpression":
      return evaluateCall(node, scope, budget);
    case "BinaryExpression":
      return evaluateBinary(node, scope, budget);
    case "FilterExpression":
      return applyFilter(node.filter, evaluate(node.operand, scope, budget), scope, budget);
    case "Ternary":
      return evaluate(isTrue(evaluate(node.condition, scope, budget)) ? node.trueExpr : node.falseExpr, scope, budget);
    case "SelectExpression":
      return isTrue(evaluate(node.test, scope, budget)) ? evaluate(node.lhs, scope, budget) : new Undefined("");
    default:
      return evaluateOther(node, scope, budget);
  }
}

function valueOfName(name: string, scope: Scope): Value {
  const constant = CONSTANTS.get(name);
  return constant === undefined ? scope.get(name) : constant;
}

type Other = Extract<
  Expression,
  { readonly type: "TestExpression" | "UnaryExpression" | "ArrayLiteral" | "TupleLiteral" | "ObjectLiteral" }
>;

function evaluateOther(node: Other, scope: Scope, budget: Budget): Value {
  switch (node.type) {
    case "TestExpression":
      return evaluateTest(node, scope, budget);
    case "UnaryExpression":
      return evaluateUnary(node.operator.value, evaluate(node.argument, scope, budget));
    case "ArrayLiteral":
      return node.value.map((item) => evaluate(item, scope, budget));
    case "TupleLiteral":
      return new Tuple(node.value.map((item) => evaluate(item, scope, budget)));
    case "ObjectLiteral":
      return new Map(
        [...node.value].map(([key, value]) => [dictKey(evaluate(key, scope, budget)), evaluate(value, scope, budget)]),
      );
    default:
      throw new TemplateError(`unexpected expression ${(node as { readonly type: string }).type}`);
  }
}

function evaluateMember(node: Member, scope: Scope, budget: Budget): Value {
  const object = evaluate(node.object, scope, budget);
  const { property } = node;
  if (property.type === "SliceExpression") {
    return sliceOf(object, boundsOf(property, scope, budget), budget);
  }
  if (node.computed) return itemOf(object, evaluate(property, scope, budget), budget);
  if (property.type === "Identifier") return attributeOf(object, property.value, budget);
  return itemOf(object, evaluate(property, scope, budget), budget);
}

function boundsOf({ start, stop, step }: Slice, scope: Scope, budget: Budget): Parameters<typeof sliceOf>[1] {
  const bound = (node: Expression | undefined): number | undefined => {
    const value = node === undefined ? null : evaluate(node, scope, budget);
    if (value === null) return undefined;
    const number = numberOf(value);
    if (number === undefined || !Number.isInteger(number)) {
      throw new TemplateError(`slice indices must be integers or None, got ${typeName(value)}`);
    }
    return number;
  };
  return { start: bound(start), stop: bound(stop), step: bound(step) };
}

function evaluateCall(node: Call, scope: Scope, budget: Budget): Value {
  const callee = evaluate(node.callee, scope, budget);
  if (callee instanceof Undefined) throw new TemplateError(`'${callee.name}' is undefined`);
  if (!(callee instanceof Callable)) throw new TemplateError(`'${typeName(callee)}' object is not callable`);
  return callee.call(argumentsOf(node.args, scope, budget));
}

export function argumentsOf(nodes: readonly Argument[], scope: Scope, budget: Budget): CallArguments {
  const positional: Value[] = [];
  const named = new Map<string, Value>();
  for (const node of nodes) {
    if (node.type === "KeywordArgumentExpression") named.set(node.key.value, evaluate(node.value, scope, budget));
    else if (node.type === "SpreadExpression") positional.push(...iterate(evaluate(node.argument, scope, budget)));
    else if (node.type === "KeywordSpreadExpression") addNamed(named, evaluate(node.argument, scope, budget));
    else positional.push(evaluate(node, scope, budget));
  }
  return { positional, named };
}

function addNamed(named: Map<string, Value>, value: Value): void {
  if (!(value instanceof Map)) throw new TemplateError(`argument after ** must be a mapping, not ${typeName(value)}`);
  for (const [key, item] of value) named.set(String(key), item);
}

function evaluateBinary(
  { operator, left, right }: Extract<Expression, { readonly type: "BinaryExpression" }>,
  scope: Scope,
  budget: Budget,
): Value {
  const value = evaluate(left, scope, budget);
  if (operator.value === "and") return isTrue(value) ? evaluate(right, scope, budget) : value;
  if (operator.value === "or") return isTrue(value) ? value : evaluate(right, scope, budget);
  return operate(operator.value, value, evaluate(right, scope, budget), budget);
}

function evaluateUnary(operator: string, value: Value): Value {
  if (operator === "not") return !isTrue(value);
  const number = numberOf(value);
  if (number === undefined) throw new TemplateError(`bad operand type for unary ${operator}: '${typeName(value)}'`);
  const signed = operator === "-" ? -number : number;
  return isFloat(value) ? new Float(signed) : signed;
}

function evaluateTest(
  { operand, negate, test }: Extract<Expression, { readonly type: "TestExpression" }>,
  scope: Scope,
  budget: Budget,
): Value {
  const value = evaluate(operand, scope, budget);
  const [name, args] = nameAndArguments(test, scope, budget);
  return runTest(name, value, args.positional[0] ?? null, budget) !== negate;
}

export function applyFilter(filter: Identifier | Call, value: Value, scope: Scope, budget: Budget): Value {
  const [name, args] = nameAndArguments(filter, scope, budget);
  return runFilter(name, value, args, budget);
}

/** The parser gives any expression behind the bar: `x | f . g` is a member. */
function nameAndArguments(node: Expression, scope: Scope, budget: Budget): readonly [string, CallArguments] {
  if (node.type === "Identifier") return [node.value, NO_ARGUMENTS];
  if (node.type !== "CallExpression" || node.callee.type !== "Identifier")
    throw new TemplateError("a filter or test is called by its name");
  return [node.callee.value, argumentsOf(node.args, scope, budget)];
}
