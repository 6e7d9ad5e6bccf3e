/**
 * Which folders belong to a text model: that of its tokenizer and that of its weights, by the parameters of its
 * configuration and of the models that it calls (TensorRT-LLM's templates). Reads no files.
 */
import { resolve } from "node:path";
import type { ModelServer, ServedModel } from "../core/model-server.ts";

export interface CandidateFolders {
  /** Folders that may hold a tokenizer, likeliest first. */
  readonly tokenizers: readonly string[];
  /** The same for weights. */
  readonly weights: readonly string[];
  /** A called model has a `prompt_template`, which stands around the text. */
  readonly hasOwnPrompt: boolean;
}

type Server = Pick<ModelServer, "model" | "index">;

const WEIGHT_KEYS: readonly string[] = ["gpt_model_path", "engine_dir", "model_dir", "model_path"];
const BLS_MODELS: readonly (readonly [key: string, name: string])[] = [
  ["preprocessing_model_name", "preprocessing"],
  ["tensorrt_llm_model_name", "tensorrt_llm"],
];

/** Text of a parameter; a template that nobody filled in counts as not given. */
export function parameterText({ config }: Pick<ServedModel, "config">, key: string): string | undefined {
  const value = Object.hasOwn(config.parameters, key) ? config.parameters[key]?.string_value : undefined;
  return value === undefined || value === "" || value.startsWith("${") ? undefined : value;
}

export function candidateFolders(model: ServedModel, server: Server): CandidateFolders {
  const called = calledModels(model, server);
  const own = [model, ...called];
  const isAlone = model.inputs.has("input_ids") && parameterText(model, "tokenizer_dir") === undefined;
  const callers = isAlone ? callersOf(model, server) : [];
  const all = [...own, ...callers];
  const weights = own.flatMap((each) => foldersOf(each, WEIGHT_KEYS));
  const plain = own.flatMap(({ folders }) => (folders === undefined ? [] : [folders.version, folders.model]));
  const tokenizers = all.flatMap((each) => foldersOf(each, ["tokenizer_dir"]));
  const known = own.flatMap(({ folders }) => folders?.weights ?? []);
  const knownTokenizers = own.flatMap(({ folders }) => folders?.tokenizer ?? []);
  return {
    tokenizers: [...new Set([...tokenizers, ...knownTokenizers, ...weights, ...known, ...plain])],
    weights: [...new Set([...weights, ...known, ...plain])],
    hasOwnPrompt: called.some((each) => parameterText(each, "prompt_template") !== undefined),
  };
}

function foldersOf(model: ServedModel, keys: readonly string[]): string[] {
  const { folders } = model;
  if (folders === undefined) return [];
  const texts = keys.flatMap((key) => parameterText(model, key) ?? []);
  return texts.flatMap((text) => [resolve(folders.model, text), resolve(folders.version, text)]);
}

/** Models of the steps of an ensemble, and those that a pipeline names. */
function calledModels(model: ServedModel, server: Server, depth = 0): ServedModel[] {
  const names = (model.config.ensemble_scheduling?.step ?? []).map(({ model_name }) => model_name);
  if (model.config.backend === "bls" || parameterText(model, "tensorrt_llm_model_name") !== undefined) {
    names.push(...BLS_MODELS.map(([key, name]) => parameterText(model, key) ?? name));
  }
  if (depth > 2) return [];
  const called = names.flatMap((name) => tryModel(server, name));
  return [...called, ...called.flatMap((each) => calledModels(each, server, depth + 1))];
}

/** Models that call this one beside a tokenizer: an engine's own folder often has none. */
function callersOf(model: ServedModel, server: Server): ServedModel[] {
  const names = new Set(server.index(true).map(({ name }) => name));
  const all = [...names].filter((name) => name !== model.name).flatMap((name) => tryModel(server, name));
  const callers = all.filter((each) => calledNames(each).includes(model.name));
  const preprocessing = all.filter(({ inputs, outputs }) => inputs.has("QUERY") && outputs.has("INPUT_ID"));
  const beside = callers.flatMap((each) => calledModels(each, server));
  return beside.length > 0 ? beside : preprocessing.slice(0, 1);
}

function calledNames(model: ServedModel): string[] {
  const steps = (model.config.ensemble_scheduling?.step ?? []).map(({ model_name }) => model_name);
  const engine = parameterText(model, "tensorrt_llm_model_name");
  return engine === undefined ? steps : [...steps, engine];
}

function tryModel(server: Server, name: string): ServedModel[] {
  try {
    return [server.model(name, "")];
  } catch {
    return []; // not loaded: it has no say
  }
}
