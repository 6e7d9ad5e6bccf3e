/** The plan of a tuning run, complete: from flags and from a file of Model Analyzer's keys. */
import { UsageError } from "@nereid/server/cli/arguments";
import type { WrittenValue } from "@nereid/server/config/model/written-message";
import type { ModelTraits } from "./model-variant.ts";
import type { Goal } from "./objective.ts";
import { doublings, type SearchSpace, type Setting } from "./search-space.ts";
import type { SearchMode } from "./tuner.ts";

export interface Range {
  readonly min: number;
  readonly max: number;
}

/** Undefined values: as the whole run has them, or not searched. */
export interface ModelPlan {
  readonly name: string;
  readonly goal: Goal;
  readonly concurrency: readonly number[] | undefined;
  readonly batchSize: number;
  /** Settings of `model_config_parameters`, which replace the automatic ones. */
  readonly settings: readonly Setting[];
  readonly cpuOnly: boolean;
  readonly shapes: readonly string[];
  readonly inputData: readonly string[];
}

export interface SearchPlan {
  readonly mode: SearchMode;
  /** False: the settings of the file alone. */
  readonly isAutomatic: boolean;
  readonly concurrency: Range;
  readonly modelBatchSize: Range;
  readonly instances: Range;
  readonly queueDelaysUs: readonly number[];
  readonly parameters: readonly { readonly key: string; readonly values: readonly string[] }[];
}

/** @throws UsageError for a model that has nothing to search */
export function searchSpaceOf(model: ModelPlan, search: SearchPlan, traits: ModelTraits): SearchSpace {
  if (traits.isEnsemble) {
    throw new UsageError(
      `model '${model.name}' is an ensemble, which has no instances of its own: tune the models of its steps`,
    );
  }
  const isAutomatic = search.isAutomatic && model.settings.length === 0;
  const settings = [
    ...(isAutomatic ? automaticSettings(search, traits) : model.settings),
    ...search.parameters.map(({ key, values }): Setting => ({ name: key, target: { kind: "parameter", key }, values })),
  ];
  const loads = model.concurrency ?? doublings(search.concurrency.min, search.concurrency.max);
  return { settings, loads: [...new Set(loads)].sort((a, b) => a - b) };
}

function automaticSettings(search: SearchPlan, traits: ModelTraits): Setting[] {
  const { min, max } = search.instances;
  const settings: Setting[] = [
    {
      name: "instance_count",
      target: { kind: "instance_count" },
      values: Array.from({ length: max - min + 1 }, (_, k) => min + k),
    },
  ];
  if (traits.hasBatches) {
    const values = doublings(search.modelBatchSize.min, search.modelBatchSize.max);
    settings.push({ name: "max_batch_size", target: { kind: "max_batch_size" }, values });
  }
  if (traits.hasDynamicBatching) {
    const values = [...search.queueDelaysUs].sort((a, b) => a - b);
    settings.push({ name: "max_queue_delay_microseconds", target: { kind: "queue_delay_us" }, values });
  }
  return settings;
}

/**
 * Settings of `model_config_parameters` (Model Analyzer, "model-config-parameters"): each list is a sweep, but a list of a field
 * that takes lists is one value unless it holds lists. `count` in the only group of `instance_group` may be a list.
 */
export function settingsOf(value: unknown, at: string): readonly Setting[] {
  return Object.entries(objectAt(value, at)).flatMap(([name, each]) =>
    name === "instance_group" ? instanceSettings(each, `${at}.${name}`) : fieldSettings([name], each, `${at}.${name}`),
  );
}

const LIST_FIELDS = ["preferred_batch_size", "input", "output"];

function fieldSettings(path: readonly string[], value: unknown, at: string): Setting[] {
  const name = path.at(-1) ?? "";
  if (Array.isArray(value)) {
    const isSweep = !LIST_FIELDS.includes(name) || value.some(Array.isArray);
    return [{ name: path.join("."), target: targetOf(path), values: (isSweep ? value : [value]) as WrittenValue[] }];
  }
  if (typeof value === "object" && value !== null) {
    return Object.entries(value).flatMap(([key, each]) => fieldSettings([...path, key], each, `${at}.${key}`));
  }
  if (value === null || value === undefined) throw new UsageError(`${at} has no value`);
  return [{ name: path.join("."), target: targetOf(path), values: [value as WrittenValue] }];
}

function targetOf(path: readonly string[]): Setting["target"] {
  if (path.join(".") === "max_batch_size") return { kind: "max_batch_size" };
  if (path.join(".") === "dynamic_batching.max_queue_delay_microseconds") return { kind: "queue_delay_us" };
  return { kind: "field", path };
}

/** One group with a list of counts, or a list of lists of groups. */
function instanceSettings(value: unknown, at: string): Setting[] {
  if (!Array.isArray(value)) throw new UsageError(`${at} is a list of groups`);
  const whole: Setting["target"] = { kind: "field", path: ["instance_group"] };
  if (value.every(Array.isArray)) return [{ name: "instance_group", target: whole, values: value as WrittenValue[] }];
  const counts: unknown = value.length === 1 ? objectAt(value[0], at).count : undefined;
  if (!Array.isArray(counts)) return [{ name: "instance_group", target: whole, values: [value as WrittenValue[]] }];
  const group = objectAt(value[0], at);
  return [
    {
      name: "instance_group",
      target: whole,
      values: counts.map((count: unknown) => [{ ...group, count }] as WrittenValue),
    },
  ];
}

export function objectAt(value: unknown, at: string): Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UsageError(`${at}: expected keys with values, got ${JSON.stringify(value)}`);
  }
  return value as Readonly<Record<string, unknown>>;
}
