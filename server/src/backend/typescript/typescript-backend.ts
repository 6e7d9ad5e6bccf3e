/** The backend of models written in TypeScript or JavaScript: `model.ts` in the version folder, one thread per instance. */
import { modelConfigJson } from "../../config/model/model-config-json.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import { datatypeOf } from "../../core/model-signature.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { Backend, BackendModel, InstanceSpec, ModelInstance, ModelSource } from "../backend.ts";
import { CustomMetrics } from "./custom-metrics.ts";
import type { TensorPlan } from "./messages.ts";
import type { ThreadLaunch } from "./model-thread.ts";
import { modelFile, readSettings } from "./settings.ts";
import { TypescriptInstance } from "./typescript-instance.ts";

const US_PER_MS = 1000;
/** Sequence state outlives its last request by this factor of the server's idle timeout. */
const IDLE_MARGIN = 2;
/** Default of the configuration. */
const DEFAULT_IDLE_US = 1_000_000;

export function createTypescriptBackend(): Backend {
  return { name: "typescript", load, close: () => Promise.resolve() };
}

async function load(source: ModelSource): Promise<BackendModel> {
  expectTensors(source);
  const launch = launchOf(source);
  const metrics = new CustomMetrics(source.metrics, source.name, source.version);
  return {
    async createInstance(spec: InstanceSpec): Promise<ModelInstance> {
      const data = { ...launch.data, instanceName: spec.name };
      const instance = new TypescriptInstance({ launch: { ...launch, data }, models: source.models, metrics });
      await instance.start();
      return instance;
    },
    close() {
      metrics[Symbol.dispose]();
      return Promise.resolve();
    },
  };
}

/** A folder with code alone would be served as a model that takes nothing and gives nothing. */
function expectTensors({ name, config }: ModelSource): void {
  if (config.input.length > 0 || config.output.length > 0) return;
  const text = `model '${name}' of backend typescript has neither inputs nor outputs: its config.pbtxt must name them ("nereid new-model" writes a model to begin with)`;
  throw invalidArgument(text);
}

function launchOf({ name, version, config, modelFolder, versionFolder, settings, log }: ModelSource): ThreadLaunch {
  return {
    ...readSettings(settings, config),
    log,
    data: {
      ...{ name, version, modelFolder, versionFolder },
      file: modelFile(config, versionFolder),
      instanceName: "",
      config: JSON.parse(modelConfigJson(config)),
      parameters: parametersOf(config),
      maxBatchSize: config.max_batch_size,
      decoupled: config.model_transaction_policy?.decoupled ?? false,
      sequenceIdleMs: sequenceIdleMs(config),
      outputs: outputPlans(config),
    },
  };
}

function parametersOf({ parameters }: ModelConfig): Record<string, string> {
  return Object.fromEntries(Object.entries(parameters).map(([name, { string_value }]) => [name, string_value]));
}

function sequenceIdleMs({ sequence_batching }: ModelConfig): number {
  if (sequence_batching === undefined) return 0;
  return ((sequence_batching.max_sequence_idle_microseconds || DEFAULT_IDLE_US) / US_PER_MS) * IDLE_MARGIN;
}

/** Outputs for clients, and those that the server keeps for the next request of a sequence. */
function outputPlans({ output, sequence_batching }: ModelConfig): TensorPlan[] {
  const outputs = output.map(({ name, data_type, dims, reshape }) => ({
    name,
    data_type,
    dims: reshape?.shape ?? dims,
  }));
  const states = (sequence_batching?.state ?? []).map(({ output_name, data_type, dims }) => ({
    ...{ name: output_name, data_type, dims },
  }));
  return [...outputs, ...states].map(({ name, data_type, dims }) => ({ name, datatype: datatypeOf(data_type), dims }));
}
