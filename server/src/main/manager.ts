/** The manager of models and the services that their loads need. Part of the composition root. */
import type { Backend, ModelCaller } from "../backend/backend.ts";
import type { StrategyPlace } from "../backend/typescript/load-batch-strategy.ts";
import { backendSettingsOf, type ServerOptions } from "../config/flags/server-options.ts";
import type { BatchStrategy } from "../core/batch-strategy.ts";
import type { ModelConfig } from "../core/model-config.ts";
import type { ServerLog } from "../observe/log.ts";
import type { MetricRegistry } from "../observe/metrics.ts";
import type { AgentFinder } from "../repository/agents/agent-finder.ts";
import { checkEnsemble } from "../repository/load/ensemble-check.ts";
import { GpuLimits } from "../repository/load/gpu-limits.ts";
import { loadModelVersion } from "../repository/load/load-model.ts";
import { updateInstances } from "../repository/load/update-instances.ts";
import { ModelManager, type ModelManagerOptions } from "../repository/model-manager.ts";
import type { ModelRegistry } from "../repository/registry.ts";
import { modelConfigOf } from "../repository/source/model-config-of.ts";
import type { RepositoryLocation } from "../repository/source/repository-location.ts";
import { RateLimiter } from "../scheduler/rate-limiter.ts";
import { ResourceLimits } from "../scheduler/resource-limits.ts";
import { isPythonBased } from "./backends.ts";
import { usedGpuShare } from "./gpus.ts";
import { createLatencies } from "./latencies.ts";
import type { ResponseCaches } from "./open-caches.ts";

export interface ManagerParts {
  readonly options: ServerOptions;
  readonly log: ServerLog;
  readonly registry: ModelRegistry;
  readonly metrics: MetricRegistry;
  readonly backends: ReadonlyMap<string, Backend>;
  readonly caches: ResponseCaches;
  readonly agents: AgentFinder;
  readonly places: readonly RepositoryLocation[];
}

/** Undefined when executions do not wait for resources. */
function createLimiter({ rateLimit }: ServerOptions): RateLimiter | undefined {
  return rateLimit.mode === "off" ? undefined : new RateLimiter(new ResourceLimits(rateLimit.resources));
}

/** The manager loads, switches and unloads models with the parts given. */
export function createManager({
  options,
  log,
  registry,
  metrics,
  backends,
  caches,
  agents,
  places,
}: ManagerParts): ModelManager {
  const { repository } = options;
  const models: ModelCaller = {
    infer: (request) => registry.lookUp(request.modelName, request.modelVersion).infer(request),
    signature: (name) => registry.lookUp(name, "").signature,
  };
  const context = {
    backends,
    registry,
    models,
    metrics,
    log,
    autoComplete: repository.autoComplete,
    ...caches,
    limiter: createLimiter(options),
    gpuLimits: new GpuLimits(options.memory.loadGpuLimits, usedGpuShare(log)),
    latenciesOf: (config: ModelConfig) => createLatencies(options, config),
    settingsOf: (backend: string) => settingsOf(options, backend),
    batchStrategyOf: findBatchStrategy,
  };
  const onNote = onceEach((note) => log.warn("model_config", note));
  const managerOptions: ModelManagerOptions = {
    places,
    configName: repository.configName,
    loadThreads: repository.loadThreadCount,
    loadRetries: repository.loadRetryCount,
    registry,
    log,
    isNamespacing: repository.isNamespacing,
    findAgent: (name) => agents.find(name),
    poll: (folder, configJson) => modelConfigOf(folder, configJson, repository.autoComplete, onNote),
    checkEnsemble: ({ config, stepKeys }) => checkEnsemble(config, (step) => registry.ready(stepKeys[step] ?? "")),
    update: (served, model) => updateInstances(context, served, model),
    load: (model, version) => loadModelVersion(context, model, version),
  };
  return new ModelManager(managerOptions);
}

/** Backends in Python have the settings of Python too. Source: core, backend_model.cc, `TritonModel::Create`. */
function settingsOf(options: ServerOptions, backend: string): ReadonlyMap<string, string> {
  const { backendDirectory: directory, repository } = options;
  const python = isPythonBased(backend, directory) ? backendSettingsOf(options, "python") : [];
  const ofServer: [string, string][] = [
    ["auto-complete-config", String(repository.autoComplete)],
    ["backend-directory", directory],
  ];
  return new Map([...ofServer, ...python, ...backendSettingsOf(options, backend)]);
}

/** A file is read again at every poll and every load: once is enough for what it says. */
function onceEach(tell: (text: string) => void): (text: string) => void {
  const told = new Set<string>();
  return (text) => {
    if (told.has(text)) return;
    told.add(text);
    tell(text);
  };
}

async function findBatchStrategy(place: StrategyPlace): Promise<BatchStrategy | undefined> {
  const { loadBatchStrategy } = await import("../backend/typescript/load-batch-strategy.ts");
  return loadBatchStrategy(place);
}
