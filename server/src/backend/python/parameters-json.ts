/** Request parameters as the JSON text that Python models read. Integers keep all digits, doubles stay doubles. */
import type { ParameterValue } from "../../core/infer-request.ts";

export function parametersJson(parameters: ReadonlyMap<string, ParameterValue>): string {
  if (parameters.size === 0) return "{}";
  const members: string[] = [];
  for (const [name, value] of parameters) members.push(`${JSON.stringify(name)}:${valueJson(value)}`);
  return `{${members.join(",")}}`;
}

function valueJson(value: ParameterValue): string {
  if (typeof value === "object") return doubleJson(value.double);
  return typeof value === "bigint" ? value.toString() : JSON.stringify(value);
}

/** Python's `json` takes NaN and Infinity as bare words, and needs a point to see a float. */
function doubleJson(double: number): string {
  if (Object.is(double, -0)) return "-0.0";
  const text = String(double);
  return Number.isInteger(double) && !text.includes("e") ? `${text}.0` : text;
}
