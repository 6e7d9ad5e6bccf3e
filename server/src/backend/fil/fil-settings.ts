/**
 * The parameters of a model of the backend `fil`. Pure. Source: triton-inference-server/fil_backend, "FIL Backend Model
 * Configuration", and the parameters of its releases before 25.09.
 */
import { nearestName } from "../../config/suggest.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";

export type ForestFormat = "xgboost" | "xgboost_json" | "xgboost_ubj" | "lightgbm" | "treelite_checkpoint";

export interface FilSettings {
  readonly format: ForestFormat;
  readonly isClassifier: boolean;
  /** Scores of all classes instead of the class. */
  readonly predictsScores: boolean;
  /** Scores above it are class 1, where there are two. */
  readonly threshold: number;
  /** Threads of one computation; 0: a share of the processors. */
  readonly numThreads: number;
  /** Undefined: the library is looked for. */
  readonly library: string | undefined;
  /** Parameters that are given and have no effect, one line. */
  readonly note: string | undefined;
}

/** File in a version's folder, where the configuration names none. */
export const DEFAULT_FILES: Readonly<Record<ForestFormat, string>> = {
  xgboost: "xgboost.model",
  xgboost_json: "xgboost.json",
  xgboost_ubj: "xgboost.ubj",
  lightgbm: "model.txt",
  treelite_checkpoint: "checkpoint.tl",
};

const DEFAULT_THRESHOLD = 0.5;
const USED: readonly string[] = [
  "model_type",
  "is_classifier",
  "output_class",
  "predict_proba",
  "threshold",
  "cpu_nthread",
  "library",
];
/** They tune a GPU, or the reader of another engine: no value changes an answer. */
const WITHOUT_EFFECT: readonly string[] = [
  "algo",
  "storage_type",
  "blocks_per_sm",
  "threads_per_tree",
  "layout",
  "chunk_size",
  "transfer_threshold",
  "use_experimental_optimizations",
  "xgboost_allow_unknown_field",
];

/** @throws ServerError for values that are none, and for parameters that look like misspelt ones */
export function parseFilSettings(config: ModelConfig): FilSettings {
  const text = (key: string): string | undefined =>
    Object.hasOwn(config.parameters, key) ? config.parameters[key]?.string_value : undefined;
  const note = noteUnused(config);
  const isClassifier = readBoolean(config, "is_classifier", text("is_classifier") ?? text("output_class"));
  if (isClassifier === undefined) {
    const expected =
      "expected the parameter 'is_classifier' (before 25.09: 'output_class') to be true or false, got none";
    throw invalidArgument(`model '${config.name}': ${expected}`);
  }
  return {
    format: readFormat(config.name, text("model_type") ?? "xgboost"),
    isClassifier,
    predictsScores: readBoolean(config, "predict_proba", text("predict_proba")) ?? false,
    threshold: readNumber(config, "threshold", text("threshold")) ?? DEFAULT_THRESHOLD,
    numThreads: Math.max(0, Math.trunc(readNumber(config, "cpu_nthread", text("cpu_nthread")) ?? 0)),
    library: text("library"),
    note,
  };
}

function noteUnused({ name, parameters }: ModelConfig): string | undefined {
  const unused: string[] = [];
  for (const key of Object.keys(parameters)) {
    if (USED.includes(key)) continue;
    const meant = WITHOUT_EFFECT.includes(key) ? undefined : nearestName(key, [...USED, ...WITHOUT_EFFECT]);
    if (meant !== undefined)
      throw invalidArgument(`model '${name}': unknown parameter '${key}', did you mean '${meant}'?`);
    unused.push(key);
  }
  if (unused.length === 0) return undefined;
  return `model '${name}': parameters without effect on this engine: ${unused.sort().join(", ")}`;
}

function readFormat(name: string, text: string): ForestFormat {
  const formats = Object.keys(DEFAULT_FILES) as ForestFormat[];
  const format = formats.find((candidate) => candidate === text);
  if (format !== undefined) return format;
  throw new ServerError(
    "unsupported",
    `model '${name}': expected model_type to be ${formats.join(", ")}, got '${text}'`,
  );
}

function readBoolean({ name }: ModelConfig, key: string, text: string | undefined): boolean | undefined {
  if (text === undefined) return undefined;
  const lower = text.toLowerCase();
  if (lower === "true" || lower === "1") return true;
  if (lower === "false" || lower === "0") return false;
  throw invalidArgument(`model '${name}': expected the parameter '${key}' to be true or false, got '${text}'`);
}

function readNumber({ name }: ModelConfig, key: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() !== "" && Number.isFinite(value)) return value;
  throw invalidArgument(`model '${name}': expected the parameter '${key}' to be a number, got '${text}'`);
}
