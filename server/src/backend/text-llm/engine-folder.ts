/**
 * Which folders of other engines this one serves, and their argument files. Sources: TensorRT-LLM's
 * `all_models/llmapi/tensorrt_llm`; Triton's vllm_backend, `samples/model_repository`.
 */
import { existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Environment } from "../../core/environment.ts";
import { isObject, type JsonObject } from "../../core/json-object.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import type { ModelSource } from "../backend.ts";

/** An `llmapi` model is one of backend `python` by its configuration. */
export type EngineFolderKind = "llmapi" | "vllm";

type FolderSource = Pick<ModelSource, "config" | "versionFolder"> & Partial<Pick<ModelSource, "settings">>;

const MAX_ARGUMENT_BYTES: number = 1 << 20;
const YAML_FILE = "model.yaml";
export const VLLM_FILE = "model.json";
export const VLLM_ADAPTERS_FILE = "multi_lora.json";
/** Value of `engine` that leaves the folder to the program that it was written for. */
const FOREIGN_ENGINES: readonly string[] = ["python", "vllm"];

/** Undefined: the folder is none of the two, or asks for its own program. */
export function engineFolderKind(source: FolderSource, env: Environment): EngineFolderKind | undefined {
  if (wantsOwnProgram(source)) return undefined;
  if (source.config.backend === "vllm") return "vllm";
  return isLlmApi(source, env) ? "llmapi" : undefined;
}

/** The parameter `engine`, or for all models `--backend-config=<backend>,engine=`. */
function wantsOwnProgram({ config, settings }: FolderSource): boolean {
  const engine = config.parameters.engine?.string_value || settings?.get("engine");
  return engine !== undefined && FOREIGN_ENGINES.includes(engine);
}

/** By its tensors, and the arguments beside its `model.py`: the text of that file differs from release to release. */
function isLlmApi({ config, versionFolder }: FolderSource, env: Environment): boolean {
  if (config.backend !== "python" || !hasLlmApiInputs(config)) return false;
  const program = config.default_model_filename === "" ? "model.py" : config.default_model_filename;
  return existsSync(join(versionFolder, program)) && existsSync(llmApiFile(versionFolder, env));
}

function hasLlmApiInputs({ input }: ModelConfig): boolean {
  const names = input.map(({ name }) => name);
  return names.includes("text_input") && names.some((name) => name.startsWith("sampling_param_"));
}

/** `LLM_CONFIG_PATH` names another file for all models, as upstream. */
export function llmApiFile(versionFolder: string, { LLM_CONFIG_PATH }: Environment): string {
  return resolve(versionFolder, LLM_CONFIG_PATH || YAML_FILE);
}

/** @throws ServerError naming the file and what is wrong with it */
export async function readArguments(path: string, format: "yaml" | "json"): Promise<JsonObject> {
  let value: unknown;
  try {
    if (statSync(path).size > MAX_ARGUMENT_BYTES) throw new Error(`it has more than ${MAX_ARGUMENT_BYTES} bytes`);
    const text = await readFile(path, "utf8");
    value = format === "yaml" ? (await import("yaml")).parse(text) : JSON.parse(text);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ServerError("invalid_argument", `Failed to parse engine config '${path}': ${reason}`, { cause });
  }
  if (isObject(value)) return value;
  throw invalidArgument(`${path}: expected a mapping of the engine's arguments`);
}

/** Undefined: there is no such file. */
export async function readOptional(path: string): Promise<JsonObject | undefined> {
  return existsSync(path) ? readArguments(path, "json") : undefined;
}
