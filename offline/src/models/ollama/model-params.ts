/** Parameters of an Ollama model as those of generation_config.json. Pure. Source: Ollama's Modelfile reference, "PARAMETER". */
import { isObject } from "@nereid/server/core/json-object";

export interface ModelParams {
  readonly sampling: Readonly<Record<string, number>>;
  /** Names that have no meaning here. */
  readonly unused: readonly string[];
}

const NAMES: ReadonlyMap<string, string> = new Map([
  ["temperature", "temperature"],
  ["top_p", "top_p"],
  ["top_k", "top_k"],
  ["min_p", "min_p"],
  ["repeat_penalty", "repetition_penalty"],
  ["presence_penalty", "presence_penalty"],
  ["frequency_penalty", "frequency_penalty"],
]);

/** Text that is no JSON object has no parameters. */
export function parseParams(text: string): ModelParams {
  const sampling: Record<string, number> = {};
  const unused: string[] = [];
  for (const [name, value] of Object.entries(objectOf(text))) {
    const own = NAMES.get(name);
    if (own !== undefined && typeof value === "number" && Number.isFinite(value)) sampling[own] = value;
    else unused.push(name);
  }
  return { sampling, unused };
}

function objectOf(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}
