/** Attributes, items and methods of values. Source: Jinja's documentation, "Variables"; its sandbox, whose lists cannot be changed. */
import type { Budget } from "./budget.ts";
import { argument, required } from "./call-arguments.ts";
import { itemAt } from "./slices.ts";
import { STRING_METHODS } from "./string-methods.ts";
import { TemplateError } from "./template-error.ts";
import {
  type CallArguments,
  Callable,
  type Dict,
  type DictKey,
  dictKey,
  isEqual,
  itemsOf,
  Namespace,
  numberOf,
  Tuple,
  Undefined,
  type Value,
} from "./values.ts";

type DictMethod = (dict: Dict, args: CallArguments) => Value;

const DICT_METHODS: ReadonlyMap<string, DictMethod> = new Map<string, DictMethod>([
  ["get", (dict, args) => memberOr(dict, required(args.positional[0], "key"), argument(args, 1, "default") ?? null)],
  ["items", (dict) => [...dict].map(([key, value]) => new Tuple([key, value]))],
  ["keys", (dict) => [...dict.keys()]],
  ["values", (dict) => [...dict.values()]],
  ["copy", (dict) => new Map(dict)],
]);

type ListMethod = (items: readonly Value[], args: CallArguments) => Value;

const LIST_METHODS: ReadonlyMap<string, ListMethod> = new Map<string, ListMethod>([
  ["index", (items, args) => indexOf(items, required(args.positional[0], "value"))],
  ["count", (items, args) => items.filter((item) => isEqual(item, required(args.positional[0], "value"))).length],
  ["copy", (items) => [...items]],
]);

/** Methods that would change a value: Jinja's immutable sandbox, which transformers uses, refuses them. */
const CHANGING = new Set([
  "append",
  "clear",
  "extend",
  "insert",
  "pop",
  "popitem",
  "remove",
  "reverse",
  "setdefault",
  "sort",
  "update",
]);

/** `value.name`: a method first, then an item. @throws TemplateError for members of what is undefined */
export function attributeOf(value: Value, name: string, budget: Budget): Value {
  if (value instanceof Undefined) throw undefinedMember(value, name);
  if (value instanceof Namespace) return memberOr(value.attributes, name, new Undefined(name));
  const method = methodOf(value, name, budget);
  if (method !== undefined) return method;
  return value instanceof Map ? memberOr(value, name, new Undefined(name)) : new Undefined(name);
}

/** `value[key]`: an item first, then a method. @throws TemplateError for items of what is undefined */
export function itemOf(value: Value, key: Value, budget: Budget): Value {
  if (value instanceof Undefined) throw undefinedMember(value, String(key));
  if (value instanceof Map) {
    const found = value.get(dictKey(key));
    if (found !== undefined) return found;
  }
  const index = numberOf(key);
  if (index !== undefined) {
    const found = itemAt(value, index, budget);
    return found === undefined ? new Undefined(String(index)) : found;
  }
  return typeof key === "string" ? attributeOf(value, key, budget) : new Undefined("");
}

/** None is a value: `??` would pass over it. */
function memberOr(members: ReadonlyMap<DictKey, Value>, key: Value, missing: Value): Value {
  const found = members.get(dictKey(key));
  return found === undefined ? missing : found;
}

function undefinedMember(value: Undefined, name: string): TemplateError {
  return new TemplateError(
    value.name === "" ? `no member '${name}': the value is undefined` : `'${value.name}' is undefined`,
  );
}

function methodOf(value: Value, name: string, budget: Budget): Callable | undefined {
  const run = methodRun(value, name, budget);
  if (run === undefined) return undefined;
  return new Callable(name, (args) => {
    for (const given of [...args.positional, ...args.named.values()]) budget.whole(given);
    const result = run(args);
    budget.items(result);
    return result;
  });
}

/** The method itself; it is called once its arguments are paid for. */
function methodRun(value: Value, name: string, budget: Budget): ((args: CallArguments) => Value) | undefined {
  if (typeof value === "string")
    return paidRun(STRING_METHODS.get(name), value, () => budget.chars(value.length), budget);
  const isCollection = value instanceof Map || Array.isArray(value);
  if (isCollection && CHANGING.has(name)) return () => refuseChange(name);
  if (value instanceof Map) return paidRun(DICT_METHODS.get(name), value, () => budget.spend(), budget);
  const items = itemsOf(value);
  return items && paidRun(LIST_METHODS.get(name), items, () => budget.whole([...items]), budget);
}

function paidRun<Owner>(
  method: ((owner: Owner, args: CallArguments, budget: Budget) => Value) | undefined,
  owner: Owner,
  pay: () => void,
  budget: Budget,
): ((args: CallArguments) => Value) | undefined {
  if (method === undefined) return undefined;
  return (args) => {
    pay();
    return method(owner, args, budget);
  };
}

function refuseChange(name: string): never {
  throw new TemplateError(`templates may not change lists and dicts: ${name}() is not allowed`);
}

function indexOf(items: readonly Value[], value: Value): number {
  const at = items.findIndex((item) => isEqual(item, value));
  if (at < 0) throw new TemplateError("the value is not in the list");
  return at;
}

/** For filters that take `attribute="a.b"`; integers are indices. A missing member becomes the fallback, if there is one. */
export function memberByPath(value: Value, path: Value, budget: Budget, fallback?: Value): Value {
  const parts = typeof path === "string" ? path.split(".") : [path];
  return parts.reduce<Value>((found, part) => {
    const key = typeof part === "string" && /^\d+$/.test(part) ? Number(part) : part;
    const member = itemOf(found, key, budget);
    return member instanceof Undefined && fallback !== undefined ? fallback : member;
  }, value);
}
