/**
 * The backends `onnxruntime`, ONNX models on the CPU, and `tensorrt`, such models in the files that `nereid trtexec` makes.
 * Makes models; what a run is, is `model-runner.ts`.
 */
import { availableParallelism } from "node:os";
import process from "node:process";
import type { ModelConfig } from "../../core/model-config.ts";
import { ServerError } from "../../core/server-error.ts";
import { OnnxRuntime, type SessionOptions } from "../../native/onnxruntime.ts";
import type { ModelInfo } from "../../native/onnxruntime-info.ts";
import type { OnnxSession } from "../../native/onnxruntime-session.ts";
import type { Backend, BackendModel, InstanceSpec, ModelDescription, ModelInstance, ModelSource } from "../backend.ts";
import { findModelFile } from "./model-file.ts";
import { ModelRunner } from "./model-runner.ts";
import { describeModel } from "./model-values.ts";
import { OnnxInstance, type OnnxInstanceContext, toServerError } from "./onnx-instance.ts";
import { findPlan, type ShapeProfile } from "./plan-model.ts";
import { raggedPlan } from "./ragged-batch.ts";
import { RunGate, runsInPool } from "./run-gate.ts";
import { runtimeOptions, sessionOptions } from "./session-settings.ts";
import { TurnBudget } from "./turn-budget.ts";
import { validateModel } from "./validate-model.ts";

export function createOnnxBackend(): Backend {
  return new OnnxBackend("onnxruntime", findOnnx, newTurns());
}

export function createPlanBackend(): Backend {
  return new OnnxBackend("tensorrt", findPlan, newTurns());
}

/** Both, for one process: their runs share its threads and its turns. */
export function createOnnxBackends(): readonly Backend[] {
  const turns = newTurns();
  return [new OnnxBackend("onnxruntime", findOnnx, turns), new OnnxBackend("tensorrt", findPlan, turns)];
}

interface Turns {
  readonly budget: TurnBudget;
  readonly gate: RunGate;
}

function newTurns(): Turns {
  return { budget: new TurnBudget(), gate: new RunGate(runsInPool(process.env.UV_THREADPOOL_SIZE)) };
}

async function findOnnx(source: ModelSource): Promise<{ readonly path: string }> {
  return { path: await findModelFile(source, "model.onnx") };
}

type FindModel = (source: ModelSource) => Promise<{ readonly path: string; readonly profile?: ShapeProfile }>;

class OnnxBackend implements Backend {
  readonly name: string;
  readonly #find: FindModel;
  readonly #turns: Turns;
  /** Loaded with the first model: a server without ONNX models needs no library. */
  #runtime: OnnxRuntime | undefined;

  constructor(name: string, find: FindModel, turns: Turns) {
    this.name = name;
    this.#find = find;
    this.#turns = turns;
  }

  /** Undefined when the configuration says everything: then nothing of it is completed, not even the batch size. */
  async describe(source: ModelSource): Promise<ModelDescription | undefined> {
    const { input, output, batch_input } = source.config;
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
    return new OnnxModel({ ...instanceContext(source.config, session.info, runner), profile });
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
    try {
      this.#runtime = new OnnxRuntime(options);
    } catch (error) {
      throw new ServerError("internal", error instanceof Error ? error.message : String(error), { cause: error });
    }
    log.verbose(1, "onnx_backend", `ONNX Runtime ${this.#runtime.version}`);
    return this.#runtime;
  }
}

class OnnxModel implements BackendModel {
  readonly #context: OnnxInstanceContext;

  constructor(context: OnnxInstanceContext) {
    this.#context = context;
  }

  async createInstance({ name, kind }: InstanceSpec): Promise<ModelInstance> {
    if (kind === "KIND_GPU") {
      const text = `instance '${name}' of model '${this.#context.modelName}' has kind KIND_GPU, but the ONNX Runtime of this server runs on the CPU only`;
      throw new ServerError("unsupported", text);
    }
    return new OnnxInstance(name, this.#context);
  }

  async close(): Promise<void> {
    await this.#context.runner.session.close();
  }
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
