/** Python's `text.format(...)`, without format specifications but for a fixed number of decimals. Source: "Format String Syntax". */
import { TemplateError } from "./template-error.ts";
import { reprOf, textOf } from "./text.ts";
import { type CallArguments, numberOf, type Value } from "./values.ts";

const FIELD = /\{\{|\}\}|\{(\w*)(?:!([rs]))?(?::([^{}]*))?\}/g;

/** @throws TemplateError for a missing argument or a specification that is not supported */
export function formatBraces(format: string, args: CallArguments): string {
  let position = 0;
  return format.replace(FIELD, (match, name: string | undefined, conversion, specification: string | undefined) => {
    if (match === "{{" || match === "}}") return match.slice(1);
    const value = name === "" ? args.positional[position++] : fieldOf(name ?? "", args);
    if (value === undefined) throw new TemplateError(`format: no argument for {${name}}`);
    return specified(value, conversion === "r", specification ?? "");
  });
}

function fieldOf(name: string, args: CallArguments): Value | undefined {
  return /^\d+$/.test(name) ? args.positional[Number(name)] : args.named.get(name);
}

function specified(value: Value, isRepr: boolean, specification: string): string {
  if (specification === "") return isRepr ? reprOf(value) : textOf(value);
  const decimals = /^\.(\d{1,2})f$/.exec(specification)?.[1];
  const number = numberOf(value);
  if (decimals === undefined || number === undefined) {
    throw new TemplateError(`format: the specification "${specification}" is not supported`);
  }
  return number.toFixed(Number(decimals));
}
