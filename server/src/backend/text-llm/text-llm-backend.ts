/**
 * Language models from the folders of other engines: TensorRT-LLM's `llmapi` and Triton's `vllm`. The engine and its
 * parameters are those of the backend `llm`; these models take and give text.
 */
import process from "node:process";
import type { Environment } from "../../core/environment.ts";
import { isObject } from "../../core/json-object.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { TextFolders } from "../../core/model-server.ts";
import { invalidArgument, ServerError } from "../../core/server-error.ts";
import { hasModelFiles } from "../../formats/hf/model-files.ts";
import { hasTokenizerFiles, loadTokenizer } from "../../formats/tokenizer/tokenizer-files.ts";
import type { Backend, BackendModel, ModelDescription, ModelSource, UsableGpus } from "../backend.ts";
import { type HostSettings, loadLlm } from "../llm/llm-backend.ts";
import type { EngineArguments } from "./argument-rules.ts";
import { type EngineFolderKind, llmApiFile, readArguments } from "./engine-folder.ts";
import { readFolderArguments } from "./folder-arguments.ts";
import { TRITON_SECTION } from "./llmapi-arguments.ts";
import { locateModel } from "./locate-model.ts";
import { TextInstance } from "./text-instance.ts";
import { vllmDescription } from "./vllm-interface.ts";

export interface TextLlmOptions {
  readonly host?: HostSettings;
  readonly findGpus?: () => UsableGpus | undefined;
  readonly env?: Environment;
}

/** Parameters of these folders that are not the engine's. */
const FOREIGN_PARAMETERS: readonly string[] = ["REPORT_CUSTOM_METRICS", "ENABLE_VLLM_HEALTH_CHECK"];

export function createTextLlmBackend(kind: EngineFolderKind, options: TextLlmOptions = {}): Backend {
  const { findGpus = () => undefined, env = process.env } = options;
  return {
    name: kind === "llmapi" ? "python" : "vllm",
    get gpus() {
      return findGpus();
    },
    describe: (source) => (kind === "llmapi" ? describeLlmApi(source, env) : Promise.resolve(vllmDescription())),
    load: (source) => load(kind, source, { ...options, findGpus, env }),
    close: () => Promise.resolve(),
  };
}

async function load(
  kind: EngineFolderKind,
  source: ModelSource,
  { host = {}, findGpus, env }: Required<Pick<TextLlmOptions, "findGpus" | "env">> & Pick<TextLlmOptions, "host">,
): Promise<BackendModel> {
  const hasGpus = (findGpus()?.ids.length ?? 0) > 0;
  const { engine, tensors } = await readFolderArguments(kind, source, { hasGpus, env });
  logFolder(kind, source, engine);
  const { weights, tokenizer: tokenizerFolder } = await locate(source, engine, env);
  const tokenizer = await loadTokenizer(tokenizerFolder).catch((cause: unknown) => {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new ServerError("invalid_argument", `model '${source.name}': ${reason}`, { cause });
  });
  const config = withEngineParameters(source.config, engine, weights);
  const model = await loadLlm(
    { ...source, config },
    {
      host,
      findGpus,
      // Configurations of these folders say KIND_CPU or KIND_MODEL: their engines choose the devices.
      prefersGpus: true,
      limits: { max_seq_len: engine.maxSequenceLength, max_input_len: engine.maxPromptLength },
      createInstance: ({ name, settings, engine: running, stoppable }, info) =>
        new TextInstance({
          name,
          facts: { modelName: source.name, settings, info, tokenizer, isBatching: config.max_batch_size > 0 },
          interface: tensors,
          engine: running,
          stoppable,
          log: source.log,
        }),
    },
  );
  return {
    get gpusPerInstance() {
      return model.gpusPerInstance ?? 1;
    },
    textFolders: { weights, tokenizer: tokenizerFolder },
    createInstance: (spec) => model.createInstance(spec),
    close: () => model.close(),
  };
}

function logFolder(kind: EngineFolderKind, { name, log }: ModelSource, { notes }: EngineArguments): void {
  const [title, program] =
    kind === "llmapi" ? ["TensorRT-LLM's LLM API", "its own model.py"] : ["vLLM", "vLLM's Python package"];
  const advice = `parameter 'engine' with value 'python' leaves it to ${program}`;
  log.info("llm", `model '${name}' is a folder for ${title} and runs on this server's engine; ${advice}`);
  for (const note of notes) log.warn("llm", `model '${name}': ${note}`);
}

/** Folders of the model and of its tokenizer. @throws ServerError saying where was looked */
async function locate(
  { versionFolder, modelFolder, log }: ModelSource,
  { model, tokenizer, revision, tokenizerRevision }: EngineArguments,
  env: Environment,
): Promise<TextFolders> {
  const base = { folders: [process.cwd(), versionFolder, modelFolder], env, log };
  const weights = await locateModel(model, { ...base, revision, isComplete: hasModelFiles });
  if (tokenizer === undefined) return { weights, tokenizer: weights };
  const options = { ...base, revision: tokenizerRevision ?? revision, isComplete: hasTokenizerFiles };
  return { weights, tokenizer: await locateModel(tokenizer, options) };
}

/** The section about Triton overrides the configuration, as `auto_complete_config` of model.py does. */
async function describeLlmApi(source: ModelSource, env: Environment): Promise<ModelDescription> {
  const path = llmApiFile(source.versionFolder, env);
  const { [TRITON_SECTION]: triton } = await readArguments(path, "yaml");
  const written = isObject(triton) ? triton : {};
  const { max_batch_size: maxBatchSize = source.config.max_batch_size, decoupled } = written;
  if (typeof maxBatchSize !== "number" || !Number.isSafeInteger(maxBatchSize) || maxBatchSize < 0) {
    throw invalidArgument(`${path}: ${TRITON_SECTION}.max_batch_size must be a whole number of at least 0`);
  }
  return {
    inputs: [],
    outputs: [],
    canBatch: false,
    maxBatchSize,
    addsTensors: true,
    ...(decoupled === undefined ? {} : { decoupled: decoupled === true }),
  };
}

/** The model's own parameters go before those of the argument file. */
export function withEngineParameters(
  config: ModelConfig,
  { parameters }: Pick<EngineArguments, "parameters">,
  weights: string,
): ModelConfig {
  const all = { ...parameters, gpt_model_path: weights };
  const made = Object.entries(all).map(([key, text]) => [key, { string_value: text }] as const);
  const own = Object.entries(config.parameters).filter(([key]) => !FOREIGN_PARAMETERS.includes(key));
  return { ...config, parameters: Object.fromEntries([...made, ...own]) };
}
