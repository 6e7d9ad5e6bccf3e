/** Reads a configuration file of Model Analyzer (YAML) into values of flags and plans of models. */
import { UsageError } from "@nereid/server/cli/arguments";
import { nearestName } from "@nereid/server/config/suggest";
import { FILE_KEYS, FLAG_KEYS, IGNORED_KEYS, MODEL_KEYS, REFUSED_KEYS } from "./analyzer-keys.ts";
import { type Constraint, type Goal, METRICS, type MetricName, type Objective } from "./objective.ts";
import type { Setting } from "./search-space.ts";
import { objectAt, settingsOf } from "./tune-plan.ts";

export interface AnalyzerModel {
  readonly name: string;
  readonly goal: Partial<Goal>;
  readonly concurrency: readonly number[] | undefined;
  readonly batchSizes: readonly number[] | undefined;
  readonly settings: readonly Setting[];
  readonly cpuOnly: boolean;
  readonly clientFlags: ClientFlags;
}

/** Taken from `perf_analyzer_flags`. */
export interface ClientFlags {
  readonly shapes: readonly string[];
  readonly inputData: readonly string[];
}

export interface AnalyzerFile {
  /** By the key's name. */
  readonly values: ReadonlyMap<(typeof FLAG_KEYS)[number], unknown>;
  readonly models: readonly AnalyzerModel[];
  readonly goal: Partial<Goal>;
  readonly clientFlags: ClientFlags;
  /** As flags of the server: `--name=value`. */
  readonly serverFlags: readonly string[];
  readonly ignored: readonly string[];
}

/** @throws UsageError naming the key, as a path */
export function readAnalyzerFile(value: unknown, file: string): AnalyzerFile {
  const top = value === null || value === undefined ? {} : objectAt(value, file);
  const known: readonly string[] = [...FLAG_KEYS, ...FILE_KEYS];
  const ignored = expectKeys(top, known, file);
  return {
    values: new Map(FLAG_KEYS.filter((key) => top[key] !== undefined).map((key) => [key, top[key]])),
    models: modelsOf(top.profile_models, `${file}: profile_models`),
    goal: goalOf(top, file),
    clientFlags: clientFlagsOf(top.perf_analyzer_flags, `${file}: perf_analyzer_flags`),
    serverFlags: serverFlagsOf(top.triton_server_flags, `${file}: triton_server_flags`),
    ignored,
  };
}

/** @returns the keys without an effect */
function expectKeys(object: Readonly<Record<string, unknown>>, known: readonly string[], at: string): string[] {
  const ignored: string[] = [];
  for (const key of Object.keys(object)) {
    if (known.includes(key)) continue;
    const fix = REFUSED_KEYS.get(key);
    if (fix !== undefined) throw new UsageError(`${at}: '${key}' is missing here: ${fix}`);
    if (!IGNORED_KEYS.includes(key)) throw new UsageError(unknownKey(key, known, at));
    ignored.push(key);
  }
  return ignored;
}

function unknownKey(key: string, known: readonly string[], at: string): string {
  const nearest = nearestName(key, known);
  return `${at}: unknown key '${key}'${nearest === undefined ? "" : `; did you mean '${nearest}'?`}`;
}

function modelsOf(value: unknown, at: string): readonly AnalyzerModel[] {
  if (value === undefined) return [];
  if (typeof value === "string") return value.split(",").map((name) => plainModel(name.trim()));
  if (Array.isArray(value)) {
    return value.flatMap((each: unknown) => (typeof each === "string" ? [plainModel(each)] : modelsOf(each, at)));
  }
  return Object.entries(objectAt(value, at)).map(([name, each]) => modelOf(name, each ?? {}, `${at}.${name}`));
}

function plainModel(name: string): AnalyzerModel {
  return modelOf(name, {}, name);
}

function modelOf(name: string, value: unknown, at: string): AnalyzerModel {
  const model = objectAt(value, at);
  expectKeys(model, MODEL_KEYS, at);
  const parameters = model.parameters === undefined ? {} : objectAt(model.parameters, `${at}.parameters`);
  expectKeys(parameters, ["concurrency", "batch_sizes"], `${at}.parameters`);
  const { model_config_parameters: swept } = model;
  return {
    name,
    goal: goalOf(model, at),
    concurrency: numbersOf(parameters.concurrency, `${at}.parameters.concurrency`),
    batchSizes: numbersOf(parameters.batch_sizes, `${at}.parameters.batch_sizes`),
    settings: swept === undefined ? [] : settingsOf(swept, `${at}.model_config_parameters`),
    cpuOnly: model.cpu_only === true,
    clientFlags: clientFlagsOf(model.perf_analyzer_flags, `${at}.perf_analyzer_flags`),
  };
}

/** A number, a list, "1,2,3", or start, stop and step. Whole and above 0. @throws UsageError */
export function numbersOf(value: unknown, at: string): readonly number[] | undefined {
  if (value === undefined) return undefined;
  const list = listOf(value, at).map(Number);
  if (list.length === 0 || list.some((each) => !Number.isInteger(each) || each < 1)) {
    throw new UsageError(`${at}: expected whole numbers above 0, got ${JSON.stringify(value)}`);
  }
  return list;
}

function listOf(value: unknown, at: string): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (typeof value === "number") return [value];
  if (typeof value === "string") return value.split(",");
  const { start, stop, step = 1 } = objectAt(value, at);
  const [first, last, each] = [start, stop, step].map(Number);
  if (first === undefined || last === undefined || each === undefined || !(each > 0) || !(last >= first)) {
    throw new UsageError(`${at}: a range has start, stop and step, got ${JSON.stringify(value)}`);
  }
  return Array.from({ length: Math.floor((last - first) / each) + 1 }, (_, k) => first + k * each);
}

function goalOf(object: Readonly<Record<string, unknown>>, at: string): Partial<Goal> {
  return {
    ...(object.objectives === undefined ? {} : { objectives: objectivesOf(object.objectives, `${at}: objectives`) }),
    ...(object.constraints === undefined
      ? {}
      : { constraints: constraintsOf(object.constraints, `${at}: constraints`) }),
  };
}

/** A list of names, or names with weights. @throws UsageError */
export function objectivesOf(value: unknown, at: string): readonly Objective[] {
  const weights = Array.isArray(value)
    ? value.map((name: unknown) => [String(name), 1] as const)
    : Object.entries(objectAt(value, at)).map(([name, weight]) => [name, Number(weight)] as const);
  return weights.map(([name, weight]) => {
    if (!(weight > 0)) throw new UsageError(`${at}.${name}: expected a weight above 0`);
    return { metric: metricOf(name, at), weight };
  });
}

function constraintsOf(value: unknown, at: string): readonly Constraint[] {
  return Object.entries(objectAt(value, at)).map(([name, bound]) => {
    const metric = metricOf(name, at);
    const key = metric === "perf_throughput" ? "min" : "max";
    const limit = Number(objectAt(bound, `${at}.${name}`)[key]);
    if (!(limit > 0)) throw new UsageError(`${at}.${name}: expected '${key}' with a number above 0`);
    return metric === "perf_throughput" ? { metric, min: limit } : { metric, max: limit };
  });
}

function metricOf(name: string, at: string): MetricName {
  const metric = METRICS.find((each) => each === (name === "perf_latency" ? "perf_latency_avg" : name));
  if (metric === undefined)
    throw new UsageError(`${at}: '${name}' is not measured here; expected ${METRICS.join(", ")}`);
  return metric;
}

function clientFlagsOf(value: unknown, at: string): ClientFlags {
  if (value === undefined) return { shapes: [], inputData: [] };
  const flags = objectAt(value, at);
  for (const name of Object.keys(flags)) {
    if (!["shape", "input-data"].includes(name))
      throw new UsageError(`${at}: '${name}' is missing here; expected shape, input-data`);
  }
  return { shapes: textsOf(flags.shape), inputData: textsOf(flags["input-data"]) };
}

function textsOf(value: unknown): readonly string[] {
  return value === undefined ? [] : (Array.isArray(value) ? value : [value]).map(String);
}

function serverFlagsOf(value: unknown, at: string): readonly string[] {
  if (value === undefined) return [];
  return Object.entries(objectAt(value, at)).map(([name, each]) => `--${name.replaceAll("_", "-")}=${String(each)}`);
}
