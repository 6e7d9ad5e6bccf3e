/**
 * Settings that decide how the thread of a model is started: backend settings, the model's parameters, the files
 * present.
 */
import { existsSync } from "node:fs";
import { isAbsolute, join, normalize, sep } from "node:path";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";

export interface TypescriptSettings {
  readonly hangTimeoutMs: number;
  readonly startTimeoutMs: number;
  readonly maxHeapMb: number | undefined;
}

const DEFAULT_FILE = "model.ts";
/** Looked for in this order when the configuration names no file. */
const FILES: readonly string[] = [DEFAULT_FILE, "model.mts", "model.js", "model.mjs"];
const DEFAULT_HANG_TIMEOUT_S = 30;
const DEFAULT_START_TIMEOUT_S = 120;
const MS_PER_S = 1000;

/** A parameter of the model, in capitals, goes before the setting of the backend. @throws ServerError */
export function readSettings(settings: ReadonlyMap<string, string>, config: ModelConfig): TypescriptSettings {
  const read = (name: string): number | undefined => positiveNumber(name, settings, config);
  return {
    hangTimeoutMs: (read("hang-timeout-seconds") ?? DEFAULT_HANG_TIMEOUT_S) * MS_PER_S,
    startTimeoutMs: (read("start-timeout-seconds") ?? DEFAULT_START_TIMEOUT_S) * MS_PER_S,
    maxHeapMb: read("max-heap-mb"),
  };
}

/** Absolute path of the model's program. @throws ServerError when there is none, or it would lie outside its folder */
export function modelFile({ name, default_model_filename }: ModelConfig, versionFolder: string): string {
  if (default_model_filename !== "" && default_model_filename !== DEFAULT_FILE) {
    return named(default_model_filename, name, versionFolder);
  }
  const found = FILES.map((file) => join(versionFolder, file)).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new ServerError("not_found", `model '${name}' has no ${FILES.join(", ")} in ${versionFolder}`);
}

function named(written: string, model: string, versionFolder: string): string {
  const file = normalize(written);
  if (isAbsolute(file) || file === ".." || file.startsWith(`..${sep}`)) {
    const text = `default_model_filename '${written}' of model '${model}' lies outside its version folder`;
    throw invalidArgument(text);
  }
  const path = join(versionFolder, file);
  if (existsSync(path)) return path;
  throw new ServerError("not_found", `model '${model}' names the file '${written}', which is not in ${versionFolder}`);
}

function positiveNumber(
  name: string,
  settings: ReadonlyMap<string, string>,
  { parameters }: ModelConfig,
): number | undefined {
  const parameter = name.toUpperCase().replaceAll("-", "_");
  const written = parameters[parameter]?.string_value ?? settings.get(name);
  if (written === undefined || written === "") return undefined;
  const value = Number(written);
  if (Number.isFinite(value) && value > 0) return value;
  const text = `${name} of the backend typescript (parameter ${parameter} of a model) must be a number above 0, got '${written}'`;
  throw invalidArgument(text);
}
