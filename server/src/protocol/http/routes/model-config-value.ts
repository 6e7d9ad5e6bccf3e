/**
 * The JSON of a model configuration (Triton's model configuration extension). 64-bit integers are numbers, except the
 * few that clients know as strings (protobuf encoding, JSON mapping, https://protobuf.dev/programming-guides/json).
 */
import type { ModelConfig } from "../../../core/model-config.ts";

/** Lists and fields of 64-bit integers that stay strings, by the path of member names to them; `*` is any one. */
const STRING_PATHS: readonly (readonly string[])[] = [
  ["instance_group", "*", "secondary_devices", "*", "device_id"],
  ["optimization", "cuda", "graph_spec", "*", "input", "*", "dim"],
  ["optimization", "cuda", "graph_spec", "*", "graph_lower_bound", "input", "*", "dim"],
  ["sequence_batching", "state", "*", "initial_state", "*", "dims"],
];

export function modelConfigValue(config: ModelConfig): unknown {
  return render(config, []);
}

function render(value: unknown, path: readonly string[]): unknown {
  if (STRING_PATHS.some((pattern) => matches(pattern, path))) {
    return Array.isArray(value) ? value.map(String) : String(value);
  }
  if (Array.isArray(value)) return value.map((element: unknown) => render(element, [...path, "*"]));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([name, member]) => [name, render(member, [...path, name])]));
}

function matches(pattern: readonly string[], path: readonly string[]): boolean {
  return pattern.length === path.length && pattern.every((step, i) => step === "*" || step === path[i]);
}
