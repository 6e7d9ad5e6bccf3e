/** Reads the arguments of functions, methods and filters. */
import { TemplateError } from "./template-error.ts";
import { type CallArguments, isInteger, numberOf, typeName, Undefined, type Value } from "./values.ts";

/** The argument at a position or of a name; undefined: it was not given. */
export function argument(args: CallArguments, index: number, name: string): Value | undefined {
  return index < args.positional.length ? args.positional[index] : args.named.get(name);
}

/** @throws TemplateError when it is no text; undefined: not given, or None */
export function textArgument(args: CallArguments, index: number, name: string): string | undefined {
  const value = argument(args, index, name);
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string") return value;
  throw new TemplateError(`argument ${name}: expected str, got ${typeName(value)}`);
}

/** @throws TemplateError when it is no integer; undefined: not given, or None */
export function integerArgument(args: CallArguments, index: number, name: string): number | undefined {
  const value = argument(args, index, name);
  if (value === undefined || value === null) return undefined;
  const number = numberOf(value);
  if (number !== undefined && isInteger(number)) return number;
  throw new TemplateError(`argument ${name}: expected int, got ${typeName(value)}`);
}

export function required<Given>(value: Given | undefined, name: string): Given {
  if (value === undefined || value instanceof Undefined) throw new TemplateError(`argument ${name} is missing`);
  return value;
}

export const NO_ARGUMENTS: CallArguments = { positional: [], named: new Map() };
