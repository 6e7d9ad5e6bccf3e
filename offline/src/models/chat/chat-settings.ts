/** Settings of a chat that its user may change: names, values and their limits. Pure. */
import { nearestName } from "@nereid/server/config/suggest";

export interface ChatSettings {
  readonly system: string | undefined;
  /** Fields of the request body. */
  readonly sampling: Readonly<Record<string, number | readonly string[]>>;
  /** Speed after each answer. */
  readonly isVerbose: boolean;
}

interface NumberSetting {
  readonly min: number;
  readonly max: number;
  readonly isInteger: boolean;
  readonly summary: string;
}

const LARGEST = 1e9;

/** By the field of the request. */
export const SAMPLING: Readonly<Record<string, NumberSetting>> = {
  temperature: { min: 0, max: 2, isInteger: false, summary: "0 always takes the likeliest token" },
  top_p: { min: 0, max: 1, isInteger: false, summary: "probability that is kept" },
  top_k: { min: -1, max: LARGEST, isInteger: true, summary: "candidates that are kept" },
  min_p: { min: 0, max: 1, isInteger: false, summary: "share of the best token's probability" },
  repetition_penalty: { min: 0, max: 10, isInteger: false, summary: "1 is none" },
  presence_penalty: { min: -2, max: 2, isInteger: false, summary: "0 is none" },
  frequency_penalty: { min: -2, max: 2, isInteger: false, summary: "0 is none" },
  max_tokens: { min: 1, max: LARGEST, isInteger: true, summary: "tokens of an answer at most" },
  seed: { min: 0, max: Number.MAX_SAFE_INTEGER, isInteger: true, summary: "equal seeds give equal answers" },
};

/** Ollama's names. */
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ["num_predict", "max_tokens"],
  ["repeat_penalty", "repetition_penalty"],
]);

export interface Change {
  /** As before, when the change was refused. */
  readonly settings: ChatSettings;
  /** For the user. */
  readonly text: string;
}

/** `words` stand behind `/set`; "default" or nothing as the value takes a setting back. */
export function changeSetting(settings: ChatSettings, words: string): Change {
  const [first = "", ...others] = words.trim().split(/\s+/);
  const [name = "", ...values] = first === "parameter" ? others : [first, ...others];
  const value = words.slice(words.indexOf(name) + name.length).trim();
  if (name === "") return { settings, text: `Expected a name and a value: /set temperature 0.7. Names: ${names()}` };
  if (name === "system") return changeSystem(settings, value);
  if (name === "verbose" || name === "quiet") {
    const isVerbose = name === "verbose";
    return { settings: { ...settings, isVerbose }, text: `The speed is ${isVerbose ? "shown" : "not shown"}.` };
  }
  if (name === "stop") return changeSampling(settings, "stop", values.length === 0 ? undefined : [value]);
  return changeNumber(settings, name, value);
}

function changeNumber(settings: ChatSettings, name: string, value: string): Change {
  const field = OTHER_NAMES.get(name) ?? name;
  const limits = Object.hasOwn(SAMPLING, field) ? SAMPLING[field] : undefined;
  if (limits === undefined) return { settings, text: unknownText(name) };
  if (value === "" || value === "default") return changeSampling(settings, field, undefined);
  const problem = numberProblem(limits, value);
  if (problem !== undefined) return { settings, text: `${field} is ${problem}, got '${value}'.` };
  return changeSampling(settings, field, Number(value));
}

/** All settings, a line each. */
export function settingLines({ system, sampling, isVerbose }: ChatSettings): string[] {
  const shown = Object.entries(sampling).map(([name, value]) => [name, String(value)] as const);
  const rows = [["system", system ?? "none"] as const, ...shown, ["speed", isVerbose ? "shown" : "not shown"] as const];
  return rows.map(([name, value]) => `  ${name.padEnd(20)}${value}`);
}

function changeSystem(settings: ChatSettings, value: string): Change {
  const system = value.replace(/^(["'])([\s\S]*)\1$/, "$2");
  if (system === "" || system === "default")
    return { settings: { ...settings, system: undefined }, text: "The system message is gone." };
  return { settings: { ...settings, system }, text: "The system message is set." };
}

function changeSampling(settings: ChatSettings, field: string, value: number | readonly string[] | undefined): Change {
  const { [field]: _before, ...others } = settings.sampling;
  if (value === undefined)
    return { settings: { ...settings, sampling: others }, text: `${field} is the model's default.` };
  return { settings: { ...settings, sampling: { ...others, [field]: value } }, text: `${field} is ${value}.` };
}

function numberProblem({ min, max, isInteger }: NumberSetting, text: string): string | undefined {
  const value = Number(text);
  const isRight = isInteger ? Number.isSafeInteger(value) : Number.isFinite(value);
  if (!isRight) return isInteger ? "an integer" : "a number";
  return value >= min && value <= max ? undefined : `from ${min} to ${max}`;
}

function unknownText(name: string): string {
  const nearest = nearestName(name, [...Object.keys(SAMPLING), "system", "stop", "verbose", "quiet"]);
  return `There is no setting '${name}'${nearest === undefined ? `: names are ${names()}` : `; did you mean '${nearest}'?`}`;
}

function names(): string {
  return ["system", ...Object.keys(SAMPLING), "stop", "verbose", "quiet"].join(", ");
}
