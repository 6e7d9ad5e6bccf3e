/** Runs the statements of a template. Source: Jinja's documentation, "List of Control Structures". */
import type {
  CallStatement,
  Expression,
  ForLoop,
  Identifier,
  MacroStatement,
  Parameter,
  SetStatement,
  Statement,
  TupleLiteral,
} from "./ast.ts";
import type { Budget } from "./budget.ts";
import { applyFilter, argumentsOf, evaluate } from "./evaluate.ts";
import { loopVariable } from "./loop-variable.ts";
import type { Scope } from "./scope.ts";
import { TemplateError } from "./template-error.ts";
import { textOf } from "./text.ts";
import { Callable, isTrue, iterate, Namespace, typeName, Undefined, type Value } from "./values.ts";

/** How a run of statements ended: `break` and `continue` end those of the loop around them. */
type Ending = "end" | "break" | "continue";

/** Text in the order of the template, and the budget that pays for it. */
export class Output {
  readonly #parts: string[] = [];
  readonly #budget: Budget;
  #length = 0;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  write(text: string): void {
    this.#length += text.length;
    this.#budget.chars(text.length);
    this.#parts.push(text);
  }

  /** As `{{ value }}`. */
  print(value: Value): void {
    if (typeof value !== "string") this.#budget.whole(value);
    this.write(textOf(value));
  }

  /** @throws TemplateError when it is too long */
  text(): string {
    this.#budget.chars(this.#length);
    return this.#parts.join("");
  }
}

/** @throws TemplateError */
export function runBody(body: readonly Statement[], scope: Scope, output: Output, budget: Budget): Ending {
  for (const statement of body) {
    const ending = run(statement, scope, output, budget);
    if (ending !== "end") return ending;
  }
  return "end";
}

function run(node: Statement, scope: Scope, output: Output, budget: Budget): Ending {
  switch (node.type) {
    case "Comment":
      return "end";
    case "Break":
      return "break";
    case "Continue":
      return "continue";
    case "If": {
      const isMet = isTrue(evaluate(node.test, scope, budget));
      return runBody(isMet ? node.body : node.alternate, scope, output, budget);
    }
    case "For":
      runLoop(node, scope, output, budget);
      return "end";
    case "Set":
      runSet(node, scope, budget);
      return "end";
    case "Macro":
      scope.set(node.name.value, macroOf(node, scope, budget));
      return "end";
    case "CallStatement":
      output.print(runCall(node, scope, budget));
      return "end";
    case "FilterStatement":
      output.print(applyFilter(node.filter, captured(node.body, scope, budget), scope, budget));
      return "end";
    default:
      output.print(evaluate(node, scope, budget));
      return "end";
  }
}

function captured(body: readonly Statement[], scope: Scope, budget: Budget): string {
  const output = new Output(budget);
  runBody(body, scope, output, budget);
  return output.text();
}

function runLoop(node: ForLoop, scope: Scope, output: Output, budget: Budget): void {
  const { iterable, condition } = filteredIterable(node.iterable);
  const source = evaluate(iterable, scope, budget);
  // A list of the characters of a text is made for the loop.
  if (typeof source === "string") budget.spend(source.length);
  let items = iterate(source);
  if (condition !== undefined) {
    items = items.filter((item) => {
      const inner = scope.inner();
      assign(node.loopvar, item, inner);
      return isTrue(evaluate(condition, inner, budget));
    });
  }
  if (items.length === 0) {
    runBody(node.defaultBlock, scope, output, budget);
    return;
  }
  for (const [i, item] of items.entries()) {
    budget.spend();
    const inner = scope.inner([["loop", loopVariable(items, i)]]);
    assign(node.loopvar, item, inner);
    if (runBody(node.body, inner, output, budget) === "break") return;
  }
}

/** `for x in xs if condition`: the parser reads the condition as part of the iterable. */
function filteredIterable(node: Expression): {
  readonly iterable: Expression;
  readonly condition: Expression | undefined;
} {
  if (node.type === "SelectExpression") return { iterable: node.lhs, condition: node.test };
  return { iterable: node, condition: undefined };
}

function assign(target: Identifier | TupleLiteral, value: Value, scope: Scope): void {
  if (target.type === "Identifier") {
    scope.set(target.value, value);
    return;
  }
  const items = iterate(value);
  if (items.length !== target.value.length) {
    throw new TemplateError(`cannot unpack ${items.length} values into ${target.value.length} names`);
  }
  for (const [i, name] of target.value.entries()) {
    if (name.type !== "Identifier" && name.type !== "TupleLiteral")
      throw new TemplateError("expected names to unpack into");
    assign(name, items[i] ?? null, scope);
  }
}

function runSet({ assignee, value, body }: SetStatement, scope: Scope, budget: Budget): void {
  if (value === null) {
    setBlock(assignee, captured(body, scope.inner(), budget), scope, budget);
    return;
  }
  const result = evaluate(value, scope, budget);
  if (assignee.type === "Identifier" || assignee.type === "TupleLiteral") assign(assignee, result, scope);
  else setAttribute(assignee, result, scope, budget);
}

/** `{% set x | filter %}...{% endset %}` filters what it captured. */
function setBlock(assignee: Expression, text: string, scope: Scope, budget: Budget): void {
  if (assignee.type !== "FilterExpression") {
    if (assignee.type !== "Identifier") throw new TemplateError("a block is set to a name");
    scope.set(assignee.value, text);
    return;
  }
  setBlock(assignee.operand, textOf(applyFilter(assignee.filter, text, scope, budget)), scope, budget);
}

function setAttribute(assignee: Expression, value: Value, scope: Scope, budget: Budget): void {
  const isMember =
    assignee.type === "MemberExpression" && assignee.property.type === "Identifier" && !assignee.computed;
  const object = isMember ? evaluate(assignee.object, scope, budget) : null;
  if (!isMember || !(object instanceof Namespace)) {
    throw new TemplateError(`only attributes of a namespace can be set, not of ${typeName(object)}`);
  }
  object.attributes.set((assignee.property as Identifier).value, value);
}

function macroOf(
  node: Pick<MacroStatement, "args" | "body"> & { readonly name: Identifier },
  scope: Scope,
  budget: Budget,
): Callable {
  return new Callable(node.name.value, ({ positional, named }) =>
    budget.nested(() => {
      const inner = scope.inner();
      bindParameters(node.args, positional, named, inner, budget);
      const caller = named.get("caller");
      if (caller !== undefined) inner.set("caller", caller);
      return captured(node.body, inner, budget);
    }),
  );
}

function bindParameters(
  parameters: readonly Parameter[],
  positional: readonly Value[],
  named: ReadonlyMap<string, Value>,
  scope: Scope,
  budget: Budget,
): void {
  for (const [i, parameter] of parameters.entries()) {
    const name = parameter.type === "Identifier" ? parameter.value : parameter.key.value;
    let value = i < positional.length ? positional[i] : named.get(name);
    if (value === undefined) {
      value = parameter.type === "Identifier" ? new Undefined(name) : evaluate(parameter.value, scope, budget);
    }
    scope.set(name, value);
  }
}

function runCall({ call, callerArgs, body }: CallStatement, scope: Scope, budget: Budget): Value {
  const callee = evaluate(call.callee, scope, budget);
  if (!(callee instanceof Callable)) throw new TemplateError(`'${typeName(callee)}' object is not callable`);
  const { positional, named } = argumentsOf(call.args, scope, budget);
  const caller = macroOf(
    { name: { type: "Identifier", value: "caller" }, args: callerArgs ?? [], body },
    scope,
    budget,
  );
  return callee.call({ positional, named: new Map([...named, ["caller", caller]]) });
}
