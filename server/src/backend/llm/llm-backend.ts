/**
 * `llm`, also known as `tensorrtllm`: language models from their files, with the tensors and parameters of
 * TensorRT-LLM's `tensorrt_llm` model. Each instance is an engine in a process of its own.
 */
import { ServerError } from "../../core/server-error.ts";
import { EngineHost, type EngineHostOptions } from "../../engine/host/engine-host.ts";
import { hasModelFiles } from "../../formats/model-files.ts";
import type { Backend, BackendModel, InstanceSpec, ModelInstance, ModelSource, UsableGpus } from "../backend.ts";
import { readBuildLimits, withBuildLimits } from "./build-limits.ts";
import { LlmInstance, StoppableRequests } from "./llm-instance.ts";
import { registerLlmMetrics } from "./llm-metrics.ts";
import { type LlmSettings, parseLlmSettings } from "./llm-settings.ts";
import { RequestFigures } from "./request-figures.ts";

/** How engine hosts are started, where it differs from this program's own host role. */
export type HostSettings = Pick<EngineHostOptions, "entry" | "env" | "firstBackoffMs">;

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
    async load(source) {
      const settings = parseLlmSettings(source);
      for (const note of settings.notes) source.log.warn("llm", `model '${source.name}': ${note}`);
      checkDraftModel(source, settings);
      const folder = findModelFolder(source, settings);
      return new LlmModel(source, withBuildLimits(settings, await readBuildLimits(folder)), folder, host);
    },
    close: async () => undefined,
  };
}

class LlmModel implements BackendModel {
  readonly #source: ModelSource;
  readonly #settings: LlmSettings;
  readonly #modelDir: string;
  readonly #host: HostSettings;
  readonly #engines = new Set<EngineHost>();
  readonly #stoppable = new StoppableRequests();
  readonly #figures = new RequestFigures();
  readonly #metrics: Disposable[];

  constructor(source: ModelSource, settings: LlmSettings, modelDir: string, host: HostSettings) {
    this.#source = source;
    this.#settings = settings;
    this.#modelDir = modelDir;
    this.#host = host;
    this.#metrics = registerLlmMetrics(source.metrics, source, () => this.#stats(), this.#figures);
  }

  async createInstance(spec: InstanceSpec): Promise<ModelInstance> {
    const {
      engine: engineConfig,
      kvCacheTokens,
      kvCache,
      numThreads,
      weightType,
      postProcessorModule,
      adapters,
    } = this.#settings;
    const { isDeterministic, draftModel, gpuMatrices } = this.#settings;
    if (gpuMatrices !== undefined && spec.kind !== "KIND_GPU") throw onCpu(this.#source, gpuMatrices);
    const engine = await EngineHost.start({
      ...this.#host,
      name: spec.name,
      spec: {
        modelDir: this.#modelDir,
        engine: engineConfig,
        kvCacheTokens,
        kvCache,
        numThreads,
        weightType,
        gpu: spec.kind === "KIND_GPU" ? { ordinal: spec.deviceId, matrices: gpuMatrices } : undefined,
        isDeterministic,
        draftModelDir: draftModel,
        postProcessorModule,
        adapters,
      },
      log: this.#source.log,
      observer: this.#figures,
    });
    this.#engines.add(engine);
    return new LlmInstance({
      name: spec.name,
      config: this.#source.config,
      settings: { ...this.#settings, eosTokenIds: engine.info.eosTokenIds },
      engine,
      stoppable: this.#stoppable,
    });
  }

  async close(): Promise<void> {
    for (const registration of this.#metrics) registration[Symbol.dispose]();
  }

  *#stats(): Iterable<ReturnType<EngineHost["stats"]>> {
    for (const engine of this.#engines) yield engine.stats();
  }
}

function onCpu({ name }: ModelSource, type: string): ServerError {
  const text = `model '${name}': parameter 'weight_type' is '${type}', which needs an instance group of KIND_GPU`;
  return new ServerError("invalid_argument", text);
}

/** The first of the folders with a model in it. @throws ServerError naming what was looked for, and where */
function findModelFolder(source: ModelSource, settings: LlmSettings): string {
  const found = settings.folders.find(hasModelFiles);
  if (found !== undefined) return found;
  throw new ServerError(
    "invalid_argument",
    `model '${source.name}': no config.json of a Hugging Face model and no GGUF file in ${settings.folders.join(" or ")}; ` +
      "set the parameter 'gpt_model_path' to the folder that holds it",
  );
}

function checkDraftModel(source: ModelSource, { draftModel }: LlmSettings): void {
  if (draftModel === undefined || hasModelFiles(draftModel)) return;
  throw new ServerError(
    "invalid_argument",
    `model '${source.name}': parameter 'speculative_model': no config.json of a Hugging Face model and no GGUF file in ` +
      draftModel,
  );
}
