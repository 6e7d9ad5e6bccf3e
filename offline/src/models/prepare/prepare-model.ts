/**
 * From a resolved model to a repository that serves it under the user's name. `nereid init-repo` writes it, into this
 * user's cache; a second start finds it there.
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { findGpus } from "@nereid/server/device/cuda/find-gpus";
import { type EngineName, type EngineSpec, GPU_MATRICES, WEIGHT_TYPES } from "@nereid/server/engine/engine-spec";
import { Reporter } from "@nereid/server/files/progress";
import { ToolError } from "@nereid/server/files/tool-error";
import type { ResolveContext, ResolvedModel } from "../resolve/resolved-model.ts";
import { chooseCpuMemory, describeModel, factsLine, type ModelFacts, planLlamaCpp } from "./describe-model.ts";

export interface PrepareOptions {
  /** Requests that run at the same time. */
  readonly maxBatchSize: number;
  /** The parameter `weight_type`; undefined: as the files have them, or narrower where they do not fit. */
  readonly weightType: string | undefined;
  /** The parameter `engine`; undefined: auto. */
  readonly engine?: EngineName | undefined;
  /** Whether the first tokens are wanted sooner than steady times: the engine on a CPU is ready without a trial. */
  readonly skipsWarmUp?: boolean;
  /** Further parameters of the engine. */
  readonly parameters?: Readonly<Record<string, string>> | undefined;
  /** Placeholders of the templates, as in `nereid init-repo --set`. */
  readonly others: ReadonlyMap<string, string>;
}

export interface PreparedModel {
  /** Absolute path of the model repository. */
  readonly repository: string;
  /** The id in all APIs; undefined for a repository of the user's own. */
  readonly servedName: string | undefined;
  readonly facts: ModelFacts | undefined;
  /** A system message that came with the model. */
  readonly system: string | undefined;
  /** The model that was found, and how it will run, for people. */
  readonly lines: readonly string[];
}

/** @throws ToolError when the model cannot be served here */
export async function prepareModel(
  model: ResolvedModel,
  options: PrepareOptions,
  context: ResolveContext,
): Promise<PreparedModel> {
  const found = `Found   ${model.origin}`;
  if (model.kind === "repository") {
    return { repository: model.path, servedName: undefined, facts: undefined, system: undefined, lines: [found] };
  }
  const facts = await describeModel(model.path, options.engine);
  const [gpu] = facts.engine === "nereid" ? findGpus().gpus : [];
  const choice = await chooseMemory(model.path, facts, options, gpu !== undefined);
  const parameters = {
    ...(options.skipsWarmUp === true && gpu === undefined ? { warmup_seconds: "0" } : {}),
    ...options.parameters,
    ...engineParameters(model, choice.weightType, options.engine),
  };
  const repository = await writeRepository(model, parameters, gpu !== undefined, options, context);
  const device = gpu === undefined ? "the CPU" : `GPU ${gpu.ordinal} (${gpu.name})`;
  const by = facts.engine === "nereid" ? "" : ` by ${facts.engine}`;
  const lines = [
    found,
    `Model   ${factsLine(facts)}`,
    ...(choice.line === undefined ? [] : [`Memory  ${choice.line}`]),
    `Run     on ${device}${by}, weights ${weightText(choice.weightType, options.weightType, facts)}`,
    ...(facts.chatTemplate === undefined
      ? ["Note    it has no chat template: messages become lines of 'role: text'"]
      : []),
    ...(model.notes ?? []).map((note) => `Note    ${note}`),
  ];
  return { repository, servedName: model.name, facts, system: model.system, lines };
}

async function chooseMemory(
  path: string,
  { engine }: ModelFacts,
  { weightType, maxBatchSize, others }: PrepareOptions,
  usesGpu: boolean,
): Promise<{ readonly weightType: string | undefined; readonly line: string | undefined }> {
  if (engine === "nereid") {
    if (usesGpu) return { weightType, line: undefined };
    const kvCacheTokens = Number(others.get("max_tokens_in_paged_kv_cache")) || 0;
    return chooseCpuMemory(path, onlyCpuType(weightType), { maxSequences: maxBatchSize, kvCacheTokens });
  }
  if (weightType === undefined) return planLlamaCpp(path, maxBatchSize);
  throw new ToolError(`--weight-type ${weightType}: the llama.cpp engine computes with weights as they are stored`, {
    fix: "Leave it away, or take a GGUF file of that type",
  });
}

function onlyCpuType(text: string | undefined): EngineSpec["weightType"] {
  const found = WEIGHT_TYPES.find((type) => type === text);
  if (text === undefined || found !== undefined) return found;
  const isForGpus = GPU_MATRICES.some((type) => type === text);
  throw new ToolError(
    `--weight-type ${text} ${isForGpus ? "needs a GPU, and there is none" : "is no type of weights"}`,
    {
      fix: `Give one of ${WEIGHT_TYPES.join(", ")}`,
    },
  );
}

function weightText(
  chosen: string | undefined,
  given: string | undefined,
  { weightTypes, engine }: ModelFacts,
): string {
  if (engine === "llama.cpp") return "as stored";
  if (chosen === undefined) return /^b?f16$/.test(weightTypes[0] ?? "") ? "widened to f32" : "as stored";
  return given === undefined ? `in ${chosen}, because wider ones do not fit` : `in ${chosen}`;
}

function engineParameters(
  model: ResolvedModel,
  weightType: string | undefined,
  engine: EngineName | undefined,
): Record<string, string> {
  const { sampling } = model;
  return {
    served_model_name: servedNames(model.name).join(","),
    ...(weightType === undefined ? {} : { weight_type: weightType }),
    ...(engine === undefined ? {} : { engine }),
    ...(sampling === undefined ? {} : { default_sampling: JSON.stringify(sampling) }),
  };
}

/** The name as typed, and without what people leave out: folders, `:latest`. */
function servedNames(name: string): readonly string[] {
  const last = name.replace(/\/+$/, "").split("/").at(-1) ?? "";
  const isPath = /^(?:[./~]|https?:)/.test(name) || last.endsWith(".gguf");
  const short = isPath ? last.replace(/\.gguf$/, "") : name.replace(/:latest$/, "");
  return [...new Set([name, short].map((each) => each.replaceAll(",", "_")).filter((each) => each !== ""))];
}

/** All that the files depend on is in the folder's name, so that one that is there is right. */
async function writeRepository(
  model: ResolvedModel,
  parameters: Readonly<Record<string, string>>,
  usesGpu: boolean,
  { maxBatchSize, others }: PrepareOptions,
  { store, signal }: ResolveContext,
): Promise<string> {
  const key = [model.path, parameters, usesGpu, maxBatchSize, [...others], LAYOUT];
  const repository = store.repository(model.name, key);
  if (existsSync(repository)) return repository;
  // It examines what it writes with much of the server: who has the repository already does not wait for that.
  const { initRepository } = await import("../../repository/create/init-repo.ts");
  try {
    await initRepository({
      modelDir: model.path,
      tokenizerDir: undefined,
      repository,
      maxBatchSize,
      isDecoupled: true,
      others,
      engineParameters: parameters,
      usesGpu,
      copiesModel: false,
      replaces: false,
      reporter: new Reporter({ mode: "quiet", command: "init-repo" }), // five small files need no progress
      signal,
    });
  } catch (error) {
    await rm(repository, { recursive: true, force: true });
    throw error;
  }
  return repository;
}

/** Counts changes of the templates or of the way in which they are filled. */
const LAYOUT = 1;
