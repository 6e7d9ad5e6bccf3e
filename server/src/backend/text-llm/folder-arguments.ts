/** Reads the argument file of a folder for another engine, and says how requests name its tensors. */
import { join } from "node:path";
import type { Environment } from "../../core/environment.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { ModelSource } from "../backend.ts";
import type { EngineArguments } from "./argument-rules.ts";
import {
  type EngineFolderKind,
  llmApiFile,
  readArguments,
  readOptional,
  VLLM_ADAPTERS_FILE,
  VLLM_FILE,
} from "./engine-folder.ts";
import { llmApiArguments } from "./llmapi-arguments.ts";
import { LLMAPI_INTERFACE } from "./llmapi-interface.ts";
import type { TextInterface } from "./text-job.ts";
import { vllmArguments } from "./vllm-arguments.ts";
import { vllmInterface } from "./vllm-interface.ts";

export interface FolderArguments {
  readonly engine: EngineArguments;
  readonly tensors: TextInterface;
  /** The file of the arguments. */
  readonly path: string;
}

export interface FolderOptions {
  /** The engine runs on a GPU. */
  readonly hasGpus: boolean;
  readonly env: Environment;
}

/** @throws ServerError naming the file and what is wrong with it */
export async function readFolderArguments(
  kind: EngineFolderKind,
  { versionFolder }: Pick<ModelSource, "versionFolder">,
  { hasGpus, env }: FolderOptions,
): Promise<FolderArguments> {
  const found =
    kind === "llmapi" ? await readLlmApi(versionFolder, hasGpus, env) : await readVllm(versionFolder, hasGpus);
  if (found.engine.model !== "") return found;
  throw invalidArgument(`${found.path}: 'model' is missing: a path or the name of a model`);
}

async function readLlmApi(folder: string, hasGpus: boolean, env: Environment): Promise<FolderArguments> {
  const path = llmApiFile(folder, env);
  const engine = llmApiArguments(await readArguments(path, "yaml"), { hasGpus, folder, source: path });
  return { engine, tensors: LLMAPI_INTERFACE, path };
}

async function readVllm(folder: string, hasGpus: boolean): Promise<FolderArguments> {
  const path = join(folder, VLLM_FILE);
  const values = await readOptional(path);
  if (values === undefined) {
    throw invalidArgument(`'${VLLM_FILE}' containing vllm engine args must be provided in '${folder}'`);
  }
  const adapters = await readOptional(join(folder, VLLM_ADAPTERS_FILE));
  const engine = vllmArguments(values, adapters, { hasGpus, folder, source: path });
  return { engine, tensors: vllmInterface(engine.adapters), path };
}
