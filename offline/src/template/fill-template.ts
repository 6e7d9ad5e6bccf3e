/** Fills one template of a model configuration and reports filled, remaining and unknown keys. Pure. */
import { standInOf } from "@nereid/server/config/pbtxt/placeholders";
import { nearestName } from "@nereid/server/config/suggest";
import { fillPlaceholders, findPlaceholders, type Placeholder } from "./template-text.ts";
import { parseTemplateValues } from "./template-values.ts";

export interface FilledTemplate {
  readonly text: string;
  /** Keys from the command line that occurred in the template. */
  readonly filled: readonly string[];
  /** Keys that the template does not have, with suggestions. */
  readonly unknown: readonly UnknownKey[];
  /** Remaining placeholders. */
  readonly unfilled: readonly Placeholder[];
  readonly warnings: readonly string[];
}

export interface UnknownKey {
  readonly key: string;
  readonly nearest: string | undefined;
}

/** One placeholder of a template, for listing. */
export interface TemplateKey {
  readonly name: string;
  readonly lines: readonly number[];
  /** Default when it stays unfilled; undefined: the setting's own default. */
  readonly byDefault: string | undefined;
  /** `text` is in quotes; `value` is a number, a boolean or a type. */
  readonly kind: "text" | "value";
}

/** Default of the original script when the command line gives none. */
const BUILT_IN: ReadonlyMap<string, string> = new Map([
  ["max_queue_size", "0"],
  ["max_queue_delay_microseconds", "0"],
]);

/** @throws ToolError when `substitutions` is no list of key:value */
export function fillTemplate(template: string, substitutions: string): FilledTemplate {
  const before = findPlaceholders(template);
  const names = new Set(before.map(({ name }) => name));
  const { values, warnings } = parseTemplateValues(substitutions, (key) => names.has(key) || occurs(template, key));
  const text = fillPlaceholders(template, new Map([...BUILT_IN, ...values]));
  const keys = [...values.keys()];
  const isRepeated =
    !keys.some((key) => names.has(key)) && keys.every((key) => hasValue(template, values.get(key) ?? ""));
  const unknown = isRepeated ? [] : keys.filter((key) => !names.has(key) && !occurs(template, key));
  return {
    text,
    filled: keys.filter((key) => names.has(key)),
    unknown: unknown.map((key) => ({ key, nearest: nearestName(key.trim(), names) })),
    unfilled: findPlaceholders(text),
    warnings,
  };
}

export function listKeys(template: string): TemplateKey[] {
  const groups = new Map<string, Placeholder[]>();
  for (const each of findPlaceholders(template)) groups.set(each.name, [...(groups.get(each.name) ?? []), each]);
  return [...groups].map(([name, placeholders]) => ({
    name,
    lines: placeholders.map(({ line }) => line),
    byDefault: BUILT_IN.get(name) ?? standInOf(`\${${name}}`),
    kind: placeholders.some(({ isQuoted }) => !isQuoted) ? "value" : "text",
  }));
}

/**
 * The original script's test. It accepts a key whose placeholder is filled already, if the parameter has the same name.
 */
function occurs(template: string, key: string): boolean {
  return key !== "" && template.includes(key);
}

/** Whether a previously filled file has this value: then a second run is a repetition, not a mistake. */
function hasValue(text: string, value: string): boolean {
  const escaped = value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`(^|[\\s"':\\[{,])${escaped}($|[\\s"'\\],;}])`, "m").test(text);
}
