/** Flags of `nereid tune` and a file of Model Analyzer's keys, joined: a flag on the command line goes before the file. */
import { readFileSync } from "node:fs";
import { type FlagValues, UsageError } from "@nereid/server/cli/arguments";
import { fileError, ToolError } from "@nereid/server/files/tool-error";
import {
  type AnalyzerFile,
  type AnalyzerModel,
  numbersOf,
  objectivesOf,
  readAnalyzerFile,
} from "../tune/analyzer-file.ts";
import type { FLAG_KEYS } from "../tune/analyzer-keys.ts";
import type { Constraint, Goal } from "../tune/objective.ts";
import type { ModelPlan, SearchPlan } from "../tune/tune-plan.ts";
import type { LOAD_FLAGS, OUTPUT_FLAGS, SEARCH_FLAGS, TUNE_FLAGS } from "./tune-flags.ts";

export type TuneFlags = FlagValues<typeof TUNE_FLAGS & typeof SEARCH_FLAGS & typeof LOAD_FLAGS & typeof OUTPUT_FLAGS>;

type Key = (typeof FLAG_KEYS)[number];

/** Keys whose flag has another name. */
const OTHER_NAMES: Readonly<Partial<Record<Key, keyof TuneFlags & string>>> = {
  triton_http_endpoint: "url",
  triton_grpc_endpoint: "grpc-url",
  batch_sizes: "batch-size",
};

export interface TuneOptions {
  readonly flags: TuneFlags;
  readonly models: readonly ModelPlan[];
  readonly search: SearchPlan;
  readonly serverFlags: readonly string[];
  /** Keys of the file without an effect. */
  readonly ignored: readonly string[];
}

/** `given`: flags that stood on the command line. @throws UsageError, ToolError */
export async function tuneOptions(flags: TuneFlags, given: ReadonlySet<string>): Promise<TuneOptions> {
  const path = flags["config-file"];
  const file = readAnalyzerFile(path === undefined ? {} : await readYaml(path), path ?? "");
  const merged = mergedFlags(flags, given, file);
  const named = merged["profile-models"]?.split(",").map((name) => name.trim());
  const models = modelsOf(named, file, given.has("profile-models"));
  if (models.length === 0)
    throw new UsageError("which models? Give --profile-models, or profile_models in --config-file");
  const goal = {
    objectives: [{ metric: "perf_throughput", weight: 1 }],
    constraints: [],
    ...file.goal,
    ...flagGoal(merged),
  } as const;
  return {
    flags: merged,
    models: models.map((model) => modelPlan(model, merged, goal, file)),
    search: searchPlan(merged),
    serverFlags: [...file.serverFlags, ...merged["server-flag"]],
    ignored: file.ignored,
  };
}

async function readYaml(path: string): Promise<unknown> {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw fileError("read", path, error);
  }
  try {
    return (await import("yaml")).parse(text);
  } catch (error) {
    throw new ToolError(`${path} is not YAML: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Values of the file in place of defaults, each checked as its flag is. */
function mergedFlags(flags: TuneFlags, given: ReadonlySet<string>, { values }: AnalyzerFile): TuneFlags {
  const merged: Record<string, unknown> = { ...flags };
  for (const [key, value] of values) {
    const name = OTHER_NAMES[key] ?? key.replaceAll("_", "-");
    if (!given.has(name) && key !== "profile_models") merged[name] = valueLike(name, value, key);
  }
  return merged as unknown as TuneFlags; // each value has the type of its flag: `valueLike` has checked it
}

const TEXT_FLAGS = ["concurrency"];
const CHOICES: Readonly<Record<string, readonly string[]>> = {
  "run-config-search-mode": ["quick", "brute"],
  "client-protocol": ["http", "grpc"],
  "triton-launch-mode": ["local", "remote", "docker", "c_api"],
};
const SWITCHES = ["override-output-model-repository", "run-config-search-disable"];
const TEXTS = ["model-repository", "output-model-repository-path", "export-path", "url", "grpc-url"];

function valueLike(name: string, value: unknown, key: string): unknown {
  if (TEXT_FLAGS.includes(name)) return numbersOf(value, key)?.join(",");
  if (SWITCHES.includes(name)) {
    if (typeof value === "boolean") return value;
    throw new UsageError(`${key}: expected true or false, got ${JSON.stringify(value)}`);
  }
  if (TEXTS.includes(name) || name in CHOICES) {
    const choices = CHOICES[name];
    if (typeof value === "string" && (choices === undefined || choices.includes(value))) return value;
    throw new UsageError(`${key}: expected ${choices?.join(" or ") ?? "a text"}, got ${JSON.stringify(value)}`);
  }
  const number = name === "batch-size" ? oneBatchSize(value, key) : Number(value);
  if (!(number > 0)) throw new UsageError(`${key}: expected a number above 0, got ${JSON.stringify(value)}`);
  return number;
}

function oneBatchSize(value: unknown, key: string): number {
  const [size = 1, ...others] = numbersOf(value, key) ?? [];
  if (others.length > 0) throw new UsageError(`${key}: one size at a time is measured here; run once for each`);
  return size;
}

function modelsOf(
  names: readonly string[] | undefined,
  { models }: AnalyzerFile,
  isGiven: boolean,
): readonly AnalyzerModel[] {
  if (!isGiven || names === undefined) return models;
  return names.map(
    (name) =>
      models.find((model) => model.name === name) ?? {
        name,
        goal: {},
        concurrency: undefined,
        batchSizes: undefined,
        settings: [],
        cpuOnly: false,
        clientFlags: { shapes: [], inputData: [] },
      },
  );
}

function modelPlan(model: AnalyzerModel, flags: TuneFlags, goal: Goal, file: AnalyzerFile): ModelPlan {
  const own =
    model.batchSizes === undefined ? undefined : oneBatchSize([...model.batchSizes], `${model.name}: batch_sizes`);
  const sources = [...file.clientFlags.inputData, ...model.clientFlags.inputData, ...flags["input-data"]];
  return {
    name: model.name,
    goal: { ...goal, ...model.goal },
    concurrency: model.concurrency ?? numbersOf(flags.concurrency, "--concurrency"),
    batchSize: own ?? flags["batch-size"],
    settings: model.settings,
    cpuOnly: model.cpuOnly,
    shapes: [...file.clientFlags.shapes, ...model.clientFlags.shapes, ...flags.shape],
    inputData: sources.length === 0 ? ["random"] : sources,
  };
}

function flagGoal(flags: TuneFlags): Partial<Goal> {
  const { "latency-budget": maxMs, "min-throughput": minRate, objective } = flags;
  const constraints: Constraint[] = [];
  if (maxMs !== undefined) constraints.push({ metric: "perf_latency_p99", max: maxMs });
  if (minRate !== undefined) constraints.push({ metric: "perf_throughput", min: minRate });
  const weights = Object.fromEntries(
    objective.map((text) => [text.split("=")[0] ?? "", Number(text.split("=")[1] ?? 1)]),
  );
  return {
    ...(constraints.length === 0 ? {} : { constraints }),
    ...(objective.length === 0 ? {} : { objectives: objectivesOf(weights, "--objective") }),
  };
}

function searchPlan(flags: TuneFlags): SearchPlan {
  const rangeOf = (what: "concurrency" | "model-batch-size" | "instance-count"): SearchPlan["instances"] => {
    const [min, max] = [flags[`run-config-search-min-${what}`], flags[`run-config-search-max-${what}`]];
    if (min > max) throw new UsageError(`--run-config-search-min-${what} ${min} is above its maximum ${max}`);
    return { min, max };
  };
  const threads = flags["thread-counts"];
  const budgets = flags["token-budgets"];
  return {
    mode: flags.exhaustive ? "full" : flags["run-config-search-mode"],
    isAutomatic: !flags["run-config-search-disable"],
    concurrency: rangeOf("concurrency"),
    modelBatchSize: rangeOf("model-batch-size"),
    instances: rangeOf("instance-count"),
    queueDelaysUs: flags["queue-delays"].split(",").map(delayOf),
    parameters: [
      ...(threads === undefined ? [] : [parameterOf(`intra_op_thread_count=${threads}`)]),
      ...(budgets === undefined ? [] : [parameterOf(`max_num_tokens=${budgets}`)]),
      ...flags.parameter.map(parameterOf),
    ],
  };
}

function delayOf(text: string): number {
  const delay = Number(text);
  if (!Number.isInteger(delay) || delay < 0)
    throw new UsageError(`--queue-delays are whole microseconds, got '${text}'`);
  return delay;
}

function parameterOf(text: string): SearchPlan["parameters"][number] {
  const at = text.indexOf("=");
  const values = text.slice(at + 1).split(",");
  if (at < 1 || values.includes("")) throw new UsageError(`--parameter is NAME=VALUE,VALUE, got '${text}'`);
  return { key: text.slice(0, at), values };
}
