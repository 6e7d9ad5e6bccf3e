/**
 * Translates the arguments of another engine into the `parameters` of our own. Each argument has a rule, means nothing
 * here, or is unknown. Pure.
 */
import { nearestName } from "../../config/suggest.ts";
import { isObject } from "../../core/json-object.ts";

/** An engine's arguments, in the words of this server. */
export interface EngineArguments {
  /** A path, or the name of a repository of the Hugging Face hub. */
  readonly model: string;
  /** The same for the tokenizer; undefined: with the model. */
  readonly tokenizer: string | undefined;
  readonly revision: string | undefined;
  readonly tokenizerRevision: string | undefined;
  /** By the names of TensorRT-LLM's config.pbtxt. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Prompt and output in tokens; undefined: the model's own. */
  readonly maxSequenceLength: number | undefined;
  /** The same for the prompt alone. */
  readonly maxPromptLength: number | undefined;
  /** One line each, for the log. */
  readonly notes: readonly string[];
}

/** Translates one argument. `name` has its path: `kv_cache_config.max_tokens`. */
export type Rule = (value: unknown, builder: ArgumentBuilder, name: string) => void;
export type Rules = Readonly<Record<string, Rule>>;

export interface RuleSet {
  readonly rules: Rules;
  /** Arguments that change no answer on this engine. */
  readonly withoutEffect: readonly string[];
}

/** Collects what the rules make of the arguments. */
export class ArgumentBuilder {
  readonly parameters: Record<string, string> = {};
  /** The engine runs on a GPU: sizes of its memory and its types of weights count. */
  readonly hasGpus: boolean;
  /** Folder that relative paths of arguments begin at, after the working directory. */
  readonly folder: string;
  model = "";
  tokenizer: string | undefined;
  revision: string | undefined;
  tokenizerRevision: string | undefined;
  maxSequenceLength: number | undefined;
  maxPromptLength: number | undefined;
  readonly #notes: string[] = [];
  readonly #withoutEffect: string[] = [];
  readonly #unknown: string[] = [];

  constructor(hasGpus: boolean, folder: string) {
    this.hasGpus = hasGpus;
    this.folder = folder;
  }

  set(key: string, value: string): void {
    this.parameters[key] = value;
  }

  note(text: string): void {
    this.#notes.push(text);
  }

  withoutEffect(name: string): void {
    this.#withoutEffect.push(name);
  }

  /** `known`: the names of its section. */
  unknown(path: string, name: string, known: Iterable<string>): void {
    const near = nearestName(name, known);
    this.#unknown.push(path + (near === undefined ? name : `${name} (did you mean ${near}?)`));
  }

  /** `source` names the file for the notes. */
  finish(source: string): EngineArguments {
    const lists: readonly (readonly [string, readonly string[]])[] = [
      ["without effect on this engine", this.#withoutEffect],
      ["unknown, ignored", this.#unknown],
    ];
    const said = lists.flatMap(([why, names]) =>
      names.length === 0 ? [] : [`${source}: ${why}: ${names.join(", ")}`],
    );
    return {
      model: this.model,
      tokenizer: this.tokenizer,
      revision: this.revision,
      tokenizerRevision: this.tokenizerRevision,
      parameters: this.parameters,
      maxSequenceLength: this.maxSequenceLength,
      maxPromptLength: this.maxPromptLength,
      notes: [...said, ...this.#notes.map((note) => `${source}: ${note}`)],
    };
  }
}

/** Applies the rules to all arguments. `null` counts as not given, as Python's None does. */
export function applyRules(
  values: Readonly<Record<string, unknown>>,
  { rules, withoutEffect }: RuleSet,
  builder: ArgumentBuilder,
  path = "",
): void {
  const known = [...Object.keys(rules), ...withoutEffect];
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined) continue;
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    if (rule !== undefined) rule(value, builder, path + name);
    else if (withoutEffect.includes(name)) builder.withoutEffect(path + name);
    else builder.unknown(path, name, known);
  }
}

/** The value as the text of a parameter. */
export function to(key: string): Rule {
  return (value, builder, name) => setText(key, value, builder, name);
}

/** As `to`, where a GPU computes: the sizes of its memory say nothing of a CPU's. */
export function toOnGpu(key: string): Rule {
  return (value, builder, name) => {
    if (builder.hasGpus) setText(key, value, builder, name);
    else builder.withoutEffect(name);
  };
}

export function toText(assign: (builder: ArgumentBuilder, text: string) => void): Rule {
  return (value, builder, name) => {
    if (typeof value === "string") assign(builder, value);
    else builder.note(`${name} is ${JSON.stringify(value)}, expected a text: ignored`);
  };
}

export function toCount(assign: (builder: ArgumentBuilder, count: number) => void): Rule {
  return (value, builder, name) => {
    const count = Number(value);
    if (Number.isSafeInteger(count) && count > 0) assign(builder, count);
    else builder.note(`${name} is ${JSON.stringify(value)}, expected a whole number above 0: ignored`);
  };
}

/** A section with arguments of its own. */
export function section(set: RuleSet): Rule {
  return (value, builder, name) => {
    if (isObject(value)) applyRules(value, set, builder, `${name}.`);
    else builder.note(`${name} is ${JSON.stringify(value)}, expected a mapping: ignored`);
  };
}

function setText(key: string, value: unknown, builder: ArgumentBuilder, name: string): void {
  const text = parameterText(value);
  if (text === undefined) builder.note(`${name} is ${JSON.stringify(value)}, expected a plain value: ignored`);
  else builder.set(key, text);
}

/** Lists of plain values are written with commas. */
function parameterText(value: unknown): string | undefined {
  if (Array.isArray(value)) {
    const parts: readonly unknown[] = value;
    const texts = parts.map(parameterText);
    return texts.every((text) => text !== undefined) ? texts.join(",") : undefined;
  }
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? String(value)
    : undefined;
}
