/**
 * `llm`, also known as `tensorrtllm`: language models from their files, with the tensors and parameters of
 * TensorRT-LLM's `tensorrt_llm` model. Each instance is an engine in a process of its own.
 */
import process from "node:process";
import { invalidArgument, type ServerError } from "../../core/server-error.ts";
import type { EngineInfo, GpuSpec, RankNetwork } from "../../engine/engine-spec.ts";
import { EngineHost, type EngineHostOptions } from "../../engine/host/engine-host.ts";
import { hasModelFiles } from "../../formats/hf/model-files.ts";
import { readRankMapping } from "../../formats/trtllm/rank-mapping.ts";
import type { Backend, BackendModel, InstanceSpec, ModelInstance, ModelSource, UsableGpus } from "../backend.ts";
import { type BuildLimits, narrowerLimits, readBuildLimits, withBuildLimits } from "./build-limits.ts";
import { LlmInstance, type LlmInstanceOptions, StoppableRequests } from "./llm-instance.ts";
import { registerLlmMetrics } from "./llm-metrics.ts";
import { type LlmSettings, parseLlmSettings } from "./llm-settings.ts";
import { chooseRanks, type RankShape, rankNetwork, ranksOn } from "./rank-settings.ts";
import { RequestFigures } from "./request-figures.ts";

/** How engine hosts are started, where it differs from this program's own host role. */
export type HostSettings = Pick<EngineHostOptions, "entry" | "env" | "firstBackoffMs" | "spare">;

/** `findGpus` is asked when the first model is loaded. */
export function createLlmBackend(
  name: "llm" | "tensorrtllm" = "llm",
  host: HostSettings = {},
  findGpus: () => UsableGpus | undefined = () => undefined,
): Backend {
  return {
    name,
    get gpus() {
      return findGpus();
    },
    load: (source) => loadLlm(source, { host, findGpus }),
    close: async () => undefined,
  };
}

export interface LoadLlmOptions {
  readonly host: HostSettings;
  readonly findGpus: () => UsableGpus | undefined;
  /** Instances run on GPUs wherever there are any, whatever their groups say. */
  readonly prefersGpus?: boolean;
  /** They narrow those of the model's files. */
  readonly limits?: BuildLimits;
  /** Default: token ids in, token ids out. */
  readonly createInstance?: (options: LlmInstanceOptions, info: EngineInfo) => ModelInstance;
}

/** @throws ServerError with the reason the load failed */
export async function loadLlm(source: ModelSource, options: LoadLlmOptions): Promise<BackendModel> {
  const settings = parseLlmSettings(source);
  for (const note of settings.notes) source.log.warn("llm", `model '${source.name}': ${note}`);
  checkDraftModel(source, settings);
  const folder = findModelFolder(source, settings);
  const network = rankNetwork(process.env);
  const worldSize = settings.ranks.worldSize ?? network?.worldSize;
  const shape = chooseRanks({ ...settings.ranks, worldSize }, await readRankMapping(folder));
  const hasGpus = (options.findGpus()?.ids.length ?? 0) > 0;
  const limits = narrowerLimits(await readBuildLimits(folder), options.limits ?? {});
  const takesGpus = limits.isForGpu === true || options.prefersGpus === true;
  const fitting = network === undefined ? fittingShape(source, shape) : shape;
  const gpus = { shape: fitting, hasGpus, takesGpus, network };
  return new LlmModel(source, withBuildLimits(settings, limits), folder, options, gpus);
}

class LlmModel implements BackendModel {
  readonly #source: ModelSource;
  readonly #settings: LlmSettings;
  readonly #modelDir: string;
  readonly #options: LoadLlmOptions;
  readonly #engines = new Set<EngineHost>();
  readonly #stoppable = new StoppableRequests();
  readonly #figures = new RequestFigures();
  readonly #metrics: Disposable[];
  readonly #gpus: GpuChoice;
  #numInstances = 0;
  /** Whether the notes for instances on a CPU have been logged. */
  #hasNoted = false;

  constructor(source: ModelSource, settings: LlmSettings, modelDir: string, options: LoadLlmOptions, gpus: GpuChoice) {
    this.#source = source;
    this.#settings = settings;
    this.#modelDir = modelDir;
    this.#options = options;
    this.#gpus = gpus;
    this.#metrics = registerLlmMetrics(
      source.metrics,
      source,
      () => this.#stats(),
      this.#figures,
      () => [...this.#engines].map(({ blocks }) => blocks),
    );
  }

  get gpusPerInstance(): number {
    const { shape, network } = this.#gpus;
    const hasOwnList = this.#settings.ranks.deviceIds.length > 0;
    return hasOwnList || network !== undefined ? 1 : shape.numTensorRanks * shape.numStages;
  }

  async createInstance(spec: InstanceSpec): Promise<ModelInstance> {
    const {
      engine: engineConfig,
      engineName,
      gpuLayers,
      kvCacheTokens,
      kvCache,
      numThreads,
      weightType,
      postProcessorModule,
      adapters,
    } = this.#settings;
    const { isDeterministic, draftModel, usesMtp, gpuMatrices, quantizesOutput, warmUpSeconds } = this.#settings;
    const gpu = this.#gpuOf(spec);
    if (gpu === undefined) this.#noteOnce();
    if (gpu === undefined && this.#gpus.hasGpus) {
      this.#source.log.info("llm", `instance '${spec.name}' runs on the CPU, as its group says: KIND_GPU is for GPUs`);
    }
    if (gpuMatrices !== undefined && gpu === undefined) throw onCpu(this.#source, "weight_type", gpuMatrices);
    if (quantizesOutput && gpu === undefined) throw onCpu(this.#source, "quantize_lm_head", "true");
    const engine = await EngineHost.start({
      ...this.#options.host,
      name: spec.name,
      spec: {
        modelDir: this.#modelDir,
        engineName,
        gpuLayers,
        engine: engineConfig,
        kvCacheTokens,
        kvCache,
        numThreads,
        weightType,
        gpu,
        isDeterministic,
        draftModelDir: draftModel,
        usesMtp,
        postProcessorModule,
        adapters,
        warmUpSeconds,
      },
      log: this.#source.log,
      observer: this.#figures,
    });
    this.#engines.add(engine);
    const { createInstance = (options) => new LlmInstance(options) } = this.#options;
    const options: LlmInstanceOptions = {
      name: spec.name,
      config: this.#source.config,
      settings: { ...this.#settings, eosTokenIds: engine.info.eosTokenIds, encoder: engine.info },
      engine,
      stoppable: this.#stoppable,
    };
    return createInstance(options, engine.info);
  }

  #noteOnce(): void {
    if (this.#hasNoted) return;
    this.#hasNoted = true;
    const { name, log } = this.#source;
    for (const note of this.#settings.cpuNotes) log.warn("llm", `model '${name}': ${note}`);
  }

  /** Configurations written for TensorRT-LLM name GPUs beside an instance group of KIND_CPU. */
  #gpuOf(spec: InstanceSpec): GpuSpec | undefined {
    const { shape, hasGpus, takesGpus, network } = this.#gpus;
    const { deviceIds, worldSize } = this.#settings.ranks;
    const listed = hasGpus ? deviceIds[this.#numInstances++ % Math.max(1, deviceIds.length)] : undefined;
    const isLaunched = hasGpus && (worldSize !== undefined || takesGpus);
    if (spec.kind !== "KIND_GPU" && listed === undefined && !isLaunched) return undefined;
    const size = shape.numTensorRanks * shape.numStages;
    const own =
      spec.kind === "KIND_GPU" ? (spec.deviceIds ?? [spec.deviceId]) : Array.from({ length: size }, (_, i) => i);
    const ordinals = listed ?? own;
    const [ordinal = 0] = ordinals;
    const refuse = (text: string): ServerError =>
      invalidArgument(`instance '${spec.name}' of model '${this.#source.name}': ${text}`);
    const ranks =
      network === undefined || size === 1
        ? ranksOn(shape, ordinals, refuse)
        : { ...shape, ordinals: [ordinal], network: expectWorld(network, size, refuse) };
    const { gpuMatrices: matrices, quantizesOutput } = this.#settings;
    return { ordinal, matrices, ...(quantizesOutput ? { quantizesOutput } : {}), ranks };
  }

  async close(): Promise<void> {
    for (const registration of this.#metrics) registration[Symbol.dispose]();
  }

  *#stats(): Iterable<ReturnType<EngineHost["stats"]>> {
    for (const engine of this.#engines) yield engine.stats();
  }
}

/** Inputs of the choice of GPUs for an instance. */
interface GpuChoice {
  readonly shape: RankShape;
  readonly hasGpus: boolean;
  /** Groups of other kinds than KIND_GPU run on GPUs too: the engine was built for one, or such models choose them. */
  readonly takesGpus: boolean;
  /** Rank network, when a launcher started this process as one of several. */
  readonly network: (RankNetwork & { readonly worldSize: number }) | undefined;
}

/** A checkpoint split for more GPUs than available is merged, unless the user asked for all ranks. */
function fittingShape({ name, config, log }: ModelSource, shape: RankShape): RankShape {
  const size = shape.numTensorRanks * shape.numStages;
  const groups = config.instance_group.filter(({ kind }) => kind === "KIND_GPU");
  if (shape.isAskedFor || groups.every(({ gpus }) => gpus.length > 0 && gpus.length % size === 0)) return shape;
  log.info("llm", `model '${name}': weights that were split for ${size} GPUs are put together on each of fewer`);
  return { numTensorRanks: 1, numStages: 1, isAskedFor: false };
}

function expectWorld(
  { worldSize, ...network }: RankNetwork & { readonly worldSize: number },
  size: number,
  refuse: (text: string) => ServerError,
): RankNetwork {
  if (worldSize === size) return network;
  throw refuse(`WORLD_SIZE is ${worldSize}, and ${size} GPUs run an instance together`);
}

function onCpu({ name }: ModelSource, parameter: string, value: string): ServerError {
  const text = `model '${name}': parameter '${parameter}' is '${value}', which needs an instance group of KIND_GPU`;
  return invalidArgument(text);
}

/** The first of the folders with a model in it. @throws ServerError naming what was looked for, and where */
function findModelFolder(source: ModelSource, settings: LlmSettings): string {
  const found = settings.folders.find(hasModelFiles);
  if (found !== undefined) return found;
  throw invalidArgument(
    `model '${source.name}': no config.json of a Hugging Face model and no GGUF file in ${settings.folders.join(" or ")}; ` +
      "set the parameter 'gpt_model_path' to the folder that holds it",
  );
}

function checkDraftModel(source: ModelSource, { draftModel }: LlmSettings): void {
  if (draftModel === undefined || hasModelFiles(draftModel)) return;
  throw invalidArgument(
    `model '${source.name}': parameter 'speculative_model': no config.json of a Hugging Face model and no GGUF file in ` +
      draftModel,
  );
}
