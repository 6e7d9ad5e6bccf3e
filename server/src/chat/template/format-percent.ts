/** Python's `text % values`. Source: Python's library reference, "printf-style String Formatting". */
import { TemplateError } from "./template-error.ts";
import { reprOf, textOf } from "./text.ts";
import { numberOf, Tuple, typeName, type Value } from "./values.ts";

const DIRECTIVE = /%(?:\((\w*)\))?([-+ 0#]*)(\d*)(?:\.(\d+))?([a-zA-Z%])/g;
const DEFAULT_DECIMALS = 6;
/** Largest width or precision: padding counts as text that the template makes. */
const MAX_WIDTH = 1000;

/** @throws TemplateError for too few or too many values, or values of another type */
export function formatPercent(format: string, values: Value): string {
  const queue = values instanceof Tuple ? [...values.items] : [values];
  const text = format.replace(DIRECTIVE, (_, key: string | undefined, flags, width, decimals, kind) => {
    if (kind === "%") return "%";
    const value = key === undefined ? next(queue) : member(values, key);
    return pad(converted(kind, value, decimals), flags, Math.min(Number(width), MAX_WIDTH));
  });
  if (queue.length > 0 && values instanceof Tuple) {
    throw new TemplateError("not all arguments converted during string formatting");
  }
  return text;
}

function next(queue: Value[]): Value {
  const value = queue.shift();
  if (value === undefined) throw new TemplateError("not enough arguments for format string");
  return value;
}

function member(values: Value, key: string): Value {
  const value = values instanceof Map ? values.get(key) : undefined;
  if (value === undefined) throw new TemplateError(`format requires a mapping with '${key}'`);
  return value;
}

function converted(kind: string, value: Value, decimals: string | undefined): string {
  if (kind === "s") return textOf(value).slice(0, decimals === undefined ? undefined : Number(decimals));
  if (kind === "r") return reprOf(value);
  const number = numberOf(value);
  if (number === undefined) {
    throw new TemplateError(`%${kind} format: a real number is required, not ${typeName(value)}`);
  }
  const places = Math.min(Number(decimals ?? DEFAULT_DECIMALS), 100);
  switch (kind) {
    case "d":
    case "i":
      return String(Math.trunc(number));
    case "f":
    case "F":
      return number.toFixed(places);
    case "x":
      return Math.trunc(number).toString(16);
    default:
      throw new TemplateError(`unsupported format character '${kind}'`);
  }
}

function pad(text: string, flags: string, width: number): string {
  const signed = flags.includes("+") && /^\d/.test(text) ? `+${text}` : text;
  if (flags.includes("-")) return signed.padEnd(width);
  if (!flags.includes("0")) return signed.padStart(width);
  const sign = /^[-+]/.test(signed) ? signed.slice(0, 1) : "";
  return sign + signed.slice(sign.length).padStart(width - sign.length, "0");
}
