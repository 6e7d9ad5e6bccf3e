/**
 * The backends `onnxruntime`, ONNX models on the CPU, and `tensorrt`, such models in the files that `nereid trtexec` makes.
 * Makes models; what a run is, is `model-runner.ts`.
 */

import { availableParallelism } from "node:os";
import type { ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import type { ModelInfo } from "../../native/onnxruntime/info.ts";
import { OnnxRuntime, type SessionOptions } from "../../native/onnxruntime/onnxruntime.ts";
import { PROVIDER_NAMES, type ProviderKind } from "../../native/onnxruntime/providers.ts";
import type { OnnxSession } from "../../native/onnxruntime/session.ts";
import type {
  Backend,
  BackendModel,
  InstanceSpec,
  ModelDescription,
  ModelInstance,
  ModelSource,
  UsableGpus,
} from "../backend.ts";
import { RunGate } from "../native-run/run-gate.ts";
import { newRunTurns, type RunTurns } from "../native-run/run-turns.ts";
import { gpuProviders } from "./gpu-providers.ts";
import { findModelFile } from "./model-file.ts";
import { ModelRunner } from "./model-runner.ts";
import { describeModel } from "./model-values.ts";
import { OnnxInstance, type OnnxInstanceContext, toServerError } from "./onnx-instance.ts";
import { findPlan, type ShapeProfile } from "./plan-model.ts";
import { raggedPlan } from "./ragged-batch.ts";
import { gpuThreads, runtimeOptions, sessionOptions } from "./session-settings.ts";
import { validateModel } from "./validate-model.ts";

/** Asked when a model is loaded. */
type FindGpus = () => UsableGpus | undefined;

export function createOnnxBackend(findGpus: FindGpus = () => undefined): Backend {
  return new OnnxBackend("onnxruntime", findOnnx, newRunTurns(), findGpus);
}

export function createPlanBackend(): Backend {
  return new OnnxBackend("tensorrt", findPlan, newRunTurns(), () => undefined);
}

/** Both, for one process: their runs share its threads and its turns. */
export function createOnnxBackends(
  findGpus: FindGpus = () => undefined,
  turns: RunTurns = newRunTurns(),
): readonly Backend[] {
  return [
    new OnnxBackend("onnxruntime", findOnnx, turns, findGpus),
    new OnnxBackend("tensorrt", findPlan, turns, findGpus),
  ];
}

async function findOnnx(source: ModelSource): Promise<{ readonly path: string }> {
  return { path: await findModelFile(source, "model.onnx") };
}

type FindModel = (source: ModelSource) => Promise<{ readonly path: string; readonly profile?: ShapeProfile }>;

class OnnxBackend implements Backend {
  readonly name: string;
  readonly #find: FindModel;
  readonly #turns: RunTurns;
  readonly #findGpus: FindGpus;
  /** Loaded with the first model: a server without ONNX models needs no library. */
  #runtime: OnnxRuntime | undefined;

  constructor(name: string, find: FindModel, turns: RunTurns, findGpus: FindGpus) {
    this.name = name;
    this.#find = find;
    this.#turns = turns;
    this.#findGpus = findGpus;
  }

  /** A CPU-only library does not fail a group that leaves the device open. */
  get gpus(): UsableGpus | undefined {
    const gpus = this.#findGpus();
    if (gpus === undefined || gpus.ids.length === 0) return undefined;
    return { ...gpus, byRequestOnly: this.#runtime?.providers.includes(PROVIDER_NAMES.cuda) !== true };
  }

  /** Undefined when the configuration says everything: then nothing of it is completed, not even the batch size. */
  async describe(source: ModelSource): Promise<ModelDescription | undefined> {
    const { input, output, batch_input } = source.config;
    if ((this.#findGpus()?.ids.length ?? 0) > 0) this.#loadRuntime(source); // which of them it can use
    if (input.length + batch_input.length > 0 && output.length > 0) return undefined;
    // Optimising changes nothing that is asked for here.
    const { session, profile } = await this.#open(source, { ...sessionOptions(source.config, 1), graphLevel: 0 });
    try {
      const description = describeModel(session.info);
      const maxBatchSize = profile && (source.config.max_batch_size || profile.maxBatchSize);
      return maxBatchSize === undefined || !description.canBatch ? description : { ...description, maxBatchSize };
    } finally {
      await session.close();
    }
  }

  async load(source: ModelSource): Promise<BackendModel> {
    const { session, profile } = await this.#open(source, sessionOptions(source.config, availableParallelism()));
    try {
      validateModel(source.config, session.info);
      profile?.expectBatchSize(source.config);
    } catch (error) {
      await session.close();
      throw error;
    }
    const runner = new ModelRunner({ session, ...this.#turns });
    const context = { ...instanceContext(source.config, session.info, runner), profile };
    return new OnnxModel(context, (deviceId) => this.#runnerOnGpu(source, deviceId));
  }

  async #runnerOnGpu(source: ModelSource, deviceId: number): Promise<ModelRunner> {
    const runtime = this.#loadRuntime(source);
    const { config } = source;
    const providers = gpuProviders(config, deviceId);
    for (const { kind } of providers)
      expectProvider(runtime, kind, `model '${config.name}' has instances of kind KIND_GPU`);
    const threads = { intraOpThreads: gpuThreads(config), runsOnOwnThreads: true };
    const ofModel = sessionOptions(config, availableParallelism());
    const { session } = await this.#open(source, { ...ofModel, ...threads, providers });
    // Its threads are not those that the gate counts.
    return new ModelRunner({ session, ...this.#turns, gate: new RunGate(Number.POSITIVE_INFINITY), isElsewhere: true });
  }

  async close(): Promise<void> {
    this.#runtime?.close();
    this.#runtime = undefined;
  }

  async #open(
    source: ModelSource,
    options: SessionOptions,
  ): Promise<{ readonly session: OnnxSession; readonly profile: ShapeProfile | undefined }> {
    const runtime = this.#loadRuntime(source);
    if (options.providers?.some(({ kind }) => kind === "openvino") === true) {
      expectProvider(runtime, "openvino", `model '${source.name}' asks for OpenVINO's kernels`);
    }
    const { path, profile } = await this.#find(source);
    try {
      return { session: await runtime.createSession(path, options), profile };
    } catch (error) {
      throw toServerError(error);
    }
  }

  #loadRuntime({ settings, log }: ModelSource): OnnxRuntime {
    if (this.#runtime !== undefined) return this.#runtime;
    const options = runtimeOptions(settings);
    const library = settings.get(LIBRARY_SETTING);
    try {
      this.#runtime = library === undefined ? new OnnxRuntime(options) : new OnnxRuntime(options, library);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ServerError("internal", library === undefined ? reason : `${library}: ${reason}`, { cause: error });
    }
    const { version, path, providers } = this.#runtime;
    log.verbose(1, "onnx_backend", `ONNX Runtime ${version} (${path}): ${providers.join(", ")}`);
    return this.#runtime;
  }
}

class OnnxModel implements BackendModel {
  readonly #context: OnnxInstanceContext;
  readonly #openOnGpu: (deviceId: number) => Promise<ModelRunner>;
  /** One for each GPU, which its instances share. */
  readonly #onGpus = new Map<number, Promise<ModelRunner>>();

  constructor(context: OnnxInstanceContext, openOnGpu: (deviceId: number) => Promise<ModelRunner>) {
    this.#context = context;
    this.#openOnGpu = openOnGpu;
  }

  async createInstance({ name, kind, deviceId }: InstanceSpec): Promise<ModelInstance> {
    if (kind !== "KIND_GPU") return new OnnxInstance(name, this.#context);
    const opening = this.#onGpus.get(deviceId) ?? this.#openOnGpu(deviceId);
    this.#onGpus.set(deviceId, opening);
    return new OnnxInstance(name, { ...this.#context, runner: await opening });
  }

  async close(): Promise<void> {
    for (const opened of await Promise.allSettled(this.#onGpus.values())) {
      if (opened.status === "fulfilled") await opened.value.session.close();
    }
    await this.#context.runner.session.close();
  }
}

/** `--backend-config=onnxruntime,library=<path>`: another library than the one that comes with the server. */
const LIBRARY_SETTING = "library";

/** @throws ServerError that says which library lacks it, and how to name another */
function expectProvider({ providers, path, version }: OnnxRuntime, kind: ProviderKind, needs: string): void {
  const name = PROVIDER_NAMES[kind];
  if (providers.includes(name)) return;
  const text =
    `${needs}, which need ${name}: ONNX Runtime ${version} in ${path} has ` +
    `${providers.join(", ")} only; name a library that has it with --backend-config=onnxruntime,library=<path> or in ` +
    "NEREID_ONNXRUNTIME_LIB";
  throw new ServerError("unsupported", text);
}

function instanceContext(
  config: ModelConfig,
  info: ModelInfo,
  runner: ModelRunner,
): Omit<OnnxInstanceContext, "profile"> {
  return {
    runner,
    modelName: config.name,
    inputs: new Map([...info.inputs, ...info.overridableInitializers].map((value) => [value.name, value])),
    scalarShapes: new Map(config.output.map(({ name, dims, reshape }) => [name, reshape?.shape ?? dims])),
    hasBatchDimension: config.max_batch_size > 0,
    ragged: raggedPlan(config),
  };
}
