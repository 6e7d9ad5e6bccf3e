/**
 * Builds one version of a model, ready to serve: completes the configuration, loads the backend, creates and warms up
 * the instances.
 */
import { join } from "node:path";
import type {
  Backend,
  BackendMetrics,
  BackendModel,
  ModelCaller,
  ModelInstance,
  ModelSource,
} from "../../backend/backend.ts";
import { finishModelConfig, unknownBackend } from "../../config/model/model-config.ts";
import { withDecoupled } from "../../config/model/normalize.ts";
import type { BatchStrategy } from "../../core/batch-strategy.ts";
import type { ModelConfig } from "../../core/model-config.ts";
import type { ModelFolders } from "../../core/model-server.ts";
import { signatureOf } from "../../core/model-signature.ts";
import { invalidArgument } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { expectAdaptiveDelaySetting } from "../../scheduler/batch/adaptive-batching-delay.ts";
import { BatchScheduler } from "../../scheduler/batch/batch-scheduler.ts";
import { CachingScheduler } from "../../scheduler/cache/caching-scheduler.ts";
import { RemoteCachingScheduler } from "../../scheduler/cache/remote-caching-scheduler.ts";
import type { RemoteResponseCache } from "../../scheduler/cache/remote-response-cache.ts";
import type { ResponseCache } from "../../scheduler/cache/response-cache.ts";
import { planEnsemble } from "../../scheduler/ensemble/ensemble-plan.ts";
import { EnsembleScheduler } from "../../scheduler/ensemble/ensemble-scheduler.ts";
import type { LatencyObserver } from "../../scheduler/latency-observer.ts";
import { StatisticsCounter } from "../../scheduler/model-statistics.ts";
import type { RateLimiter } from "../../scheduler/rate-limiter.ts";
import type { Scheduler } from "../../scheduler/scheduler.ts";
import { SequenceFeed } from "../../scheduler/sequence/feed.ts";
import { SequenceScheduler } from "../../scheduler/sequence/sequence-scheduler.ts";
import { parseStartHold } from "../../scheduler/start-hold.ts";
import { contentGeneration } from "../model-generation.ts";
import { namespaceOfKey } from "../model-key.ts";
import { ModelVersion, requestContext } from "../model-version.ts";
import type { ModelRegistry } from "../registry.ts";
import type { PolledModel } from "../source/model-sources.ts";
import { BackendLog } from "./backend-log.ts";
import { expectRuntime } from "./expect-runtime.ts";
import type { GpuLimits } from "./gpu-limits.ts";
import { readInitialStates } from "./initial-states.ts";
import { limitInstances } from "./instance-limits.ts";
import { createInstances, devicesOf, expectActiveInstance, instanceSpecs } from "./instance-specs.ts";
import { readLabels } from "./labels.ts";
import { warmUp } from "./warmup.ts";

export interface LoadContext {
  readonly backends: ReadonlyMap<string, Backend>;
  readonly registry: ModelRegistry;
  readonly models: ModelCaller;
  readonly metrics: BackendMetrics;
  readonly log: Logger;
  readonly autoComplete: boolean;
  /** Latency distributions to record beyond sums; undefined: none. */
  readonly latenciesOf: (config: ModelConfig) => LatencyObserver | undefined;
  /** Undefined: responses are not cached in this process. */
  readonly cache: ResponseCache | undefined;
  /** Fallback backend; absent: none. */
  readonly remoteCache?: RemoteResponseCache | undefined;
  /** Undefined: executions do not wait for resources. */
  readonly limiter: RateLimiter | undefined;
  /** Absent: no limit on GPU memory. */
  readonly gpuLimits?: GpuLimits | undefined;
  /** `--backend-config` of a backend over the global settings. */
  readonly settingsOf: (backend: string) => ReadonlyMap<string, string>;
  /** A model's own batching strategy; absent: none is loaded. */
  readonly batchStrategyOf?: (source: ModelSource) => Promise<BatchStrategy | undefined>;
}

/** @throws ServerError with the reason why the version is unavailable */
export async function loadModelVersion(
  context: LoadContext,
  polled: PolledModel,
  version: number,
): Promise<ModelVersion> {
  const startMs = performance.now();
  const isEnsemble = polled.config.ensemble_scheduling !== undefined || polled.config.platform === "ensemble";
  if (isEnsemble) return loadEnsemble(context, polled, version, startMs);
  const backend = await backendOf(context, polled, version);
  if (backend === undefined) throw unknownBackend(polled.config.backend);
  const { source, config } = await finishConfig(context, backend, polled, version);
  const batching = config.sequence_batching;
  const feed =
    batching === undefined ? undefined : new SequenceFeed(config, readInitialStates(config, polled.folder.path));
  expectActiveInstance(config);
  const hold = parseStartHold(process.env);
  expectAdaptiveDelaySetting(config);
  const labels = readLabels(config, polled.folder.path);
  const strategy = await strategyOf(context, { ...source, config });
  const generation = await generationOf(context, polled, version);
  const { log } = context;
  const backendLog = new BackendLog(log, backend.name);
  backendLog.modelInitialized(config.name, version);
  const model = await backend.load({ ...source, config });
  const instances = await createAll(context, config, model, backendLog).catch(async (error: unknown) => {
    await model.close();
    throw error;
  });
  const base = {
    log,
    namespace: namespaceOfKey(polled.key),
    config,
    version,
    signature: signatureOf(config),
    decoupled: config.model_transaction_policy?.decoupled ?? false,
    statistics: new StatisticsCounter(context.latenciesOf(config)),
  };
  const limits = await loadStep(instances, model, async () => {
    await warmUp({ config, modelFolder: polled.folder.path, instances, context: requestContext(base), log, feed });
    return limitInstances(context.limiter, config, instances, model.gpusPerInstance);
  });
  const inner =
    batching === undefined || feed === undefined
      ? new BatchScheduler({ ...base, instances, limits, strategy, hold })
      : new SequenceScheduler({ ...base, batching, feed, instances, limits, hold });
  const scheduler = withCache(context, { ...base, generation: () => generation }, inner);
  return new ModelVersion({
    ...base,
    generation: () => generation,
    labels,
    folders: { ...foldersOf(polled, version), ...model.textFolders },
    scheduler,
    instances,
    model,
    loadSeconds: (performance.now() - startMs) / 1000,
    onClosed: () => limits?.[Symbol.dispose](),
    limits,
  });
}

/** The backend that the configuration names, or the one that it leaves this model to. */
export async function backendOf(
  context: LoadContext,
  polled: PolledModel,
  version: number,
): Promise<Backend | undefined> {
  const named = context.backends.get(polled.config.backend);
  return (await named?.delegate?.(sourceOf(context, polled, version))) ?? named;
}

async function createAll(
  { gpuLimits }: LoadContext,
  config: ModelConfig,
  model: BackendModel,
  log: BackendLog,
): Promise<ModelInstance[]> {
  const specs = instanceSpecs(config, model.gpusPerInstance).map(({ spec }) => spec);
  await gpuLimits?.expectRoom(config.name, devicesOf(specs));
  return createInstances(specs, model, log);
}

/** The configuration as completed by the model, and the model loaded by the backend. */
export async function finishConfig(
  context: LoadContext,
  backend: Backend,
  polled: PolledModel,
  version: number,
): Promise<{ source: ModelSource; config: ModelConfig }> {
  const source = sourceOf(context, polled, version);
  if (backend.findsRuntime !== true) expectRuntime(source);
  const config = finishModelConfig({
    prepared: polled.config,
    description: await backend.describe?.(source),
    autoComplete: context.autoComplete,
    settings: source.settings,
    gpus: backend.gpus ?? NO_GPUS,
  });
  return { source, config };
}

/** Scheduler of a model whose requests are independent. */
async function strategyOf(context: LoadContext, source: ModelSource): Promise<BatchStrategy | undefined> {
  return source.config.dynamic_batching === undefined ? undefined : context.batchStrategyOf?.(source);
}

/** Steps that may fail after the instances exist; on failure the instances are closed. */
async function loadStep<T>(
  instances: readonly ModelInstance[],
  model: BackendModel,
  action: () => Promise<T>,
): Promise<T> {
  try {
    return await action();
  } catch (error) {
    await closeAll(instances, model);
    throw error;
  }
}

/** Whether the model can see parameters; without them equal inputs give equal answers. */
const BACKENDS_BLIND_TO_PARAMETERS: ReadonlySet<string> = new Set(["onnxruntime", "tensorrt", "identity"]);

interface CachedParts {
  readonly config: ModelConfig;
  readonly version: number;
  readonly decoupled: boolean;
  readonly generation: () => string;
}

function withCache({ cache, remoteCache }: LoadContext, parts: CachedParts, inner: Scheduler): Scheduler {
  const { config, version, decoupled, generation } = parts;
  if (config.response_cache?.enable !== true || decoupled) return inner;
  const parametersMatter = !BACKENDS_BLIND_TO_PARAMETERS.has(config.backend);
  const options = { version: String(version), generation, parametersMatter };
  if (cache !== undefined) return new CachingScheduler(inner, { ...options, cache });
  return remoteCache === undefined ? inner : new RemoteCachingScheduler(inner, { ...options, cache: remoteCache });
}

/** A local cache is keyed by load; a shared one needs equal keys for equal models. */
async function generationOf({ remoteCache }: LoadContext, polled: PolledModel, version: number): Promise<string> {
  return remoteCache === undefined ? String(performance.now()) : contentGeneration(polled, version);
}

/** No GPU is usable until its device exists. */
const NO_GPUS = Object.freeze({ ids: [] as readonly number[], minComputeCapability: 0 });

function foldersOf({ folder }: PolledModel, version: number): ModelFolders {
  return { model: folder.path, version: join(folder.path, String(version)) };
}

function sourceOf(context: LoadContext, polled: PolledModel, version: number): ModelSource {
  const { config, folder } = polled;
  const folders = foldersOf(polled, version);
  return {
    name: folder.name,
    version,
    config,
    modelFolder: folders.model,
    versionFolder: folders.version,
    isFetched: folder.origin !== folder.path,
    settings: context.settingsOf(config.backend),
    log: context.log,
    models: callerFrom(context, namespaceOfKey(polled.key)),
    metrics: context.metrics,
  };
}

/** Models call others by name; with namespaces, models of the same repository come first. */
function callerFrom({ models, registry }: LoadContext, namespace: string): ModelCaller {
  if (namespace === "") return models;
  return {
    infer: (request) => registry.lookUpFrom(namespace, request.modelName, request.modelVersion).infer(request),
    signature: (name) => registry.lookUpFrom(namespace, name, "").signature,
  };
}

async function closeAll(instances: readonly ModelInstance[], model: BackendModel): Promise<void> {
  await Promise.allSettled(instances.map((instance) => instance.close()));
  await model.close();
}

async function loadEnsemble(
  context: LoadContext,
  polled: PolledModel,
  version: number,
  startMs: number,
): Promise<ModelVersion> {
  const { registry } = context;
  const labels = readLabels(polled.config, polled.folder.path);
  const config = finishModelConfig({
    prepared: polled.config,
    description: undefined,
    autoComplete: context.autoComplete,
    settings: context.settingsOf("ensemble"),
    gpus: NO_GPUS,
  });
  const stepModel = (index: number, version: string): ModelVersion =>
    registry.lookUpKey(polled.stepKeys[index] ?? "", version);
  const plan = planEnsemble(config, (_, index) => stepModel(index, "").decoupled);
  expectNoCacheOfStreams(config, plan.isDecoupled);
  if (plan.maxInFlight > 0) {
    const text = `Ensemble model '${config.name}' configured with max_inflight_requests: ${plan.maxInFlight}`;
    context.log.info("ensemble_scheduler", text); // scripts look for it
  }
  const signature = signatureOf(config);
  const statistics = new StatisticsCounter(context.latenciesOf(config));
  const inner = new EnsembleScheduler({
    plan,
    signature,
    statistics,
    model: (step) => stepModel(step.index, step.modelVersion),
  });
  const own = await generationOf(context, polled, version);
  const generation = (): string => [own, ...stepGenerations(config, stepModel)].join(" ");
  const scheduler = withCache(context, { config, version, decoupled: plan.isDecoupled, generation }, inner);
  return new ModelVersion({
    namespace: namespaceOfKey(polled.key),
    config: plan.isDecoupled ? withDecoupled(config, true) : config,
    version,
    signature,
    generation,
    decoupled: plan.isDecoupled,
    labels: new Map([...composingLabels(config, (index) => stepModel(index, "").labels), ...labels]),
    folders: foldersOf(polled, version),
    statistics,
    scheduler,
    instances: [],
    model: undefined,
    log: context.log,
    loadSeconds: (performance.now() - startMs) / 1000,
  });
}

/**
 * Whether an ensemble is decoupled is known only with the models that it calls. @throws ServerError as for a decoupled
 * model
 */
function expectNoCacheOfStreams({ name, response_cache }: ModelConfig, isDecoupled: boolean): void {
  if (!isDecoupled || response_cache?.enable !== true) return;
  const text = `Response Cache does not currently support model ${name} with 'decoupled' transaction policy. Please disable the response cache.`;
  throw invalidArgument(text);
}

/** Cache generation of an ensemble: that of the currently loaded models that it calls. */
function stepGenerations(config: ModelConfig, model: (index: number, version: string) => ModelVersion): string[] {
  return (config.ensemble_scheduling?.step ?? []).map(({ model_version: version }, index) => {
    try {
      return model(index, version < 0 ? "" : String(version)).generation();
    } catch {
      return "none"; // the ensemble itself will say so
    }
  });
}

/** Labels of an ensemble's output come from the model that produces it. */
function composingLabels(
  config: ModelConfig,
  labelsOf: (step: number) => ReadonlyMap<string, readonly string[]>,
): Map<string, readonly string[]> {
  const labels = new Map<string, readonly string[]>();
  for (const [index, step] of (config.ensemble_scheduling?.step ?? []).entries()) {
    const known = labelsOf(index);
    for (const [output, tensor] of Object.entries(step.output_map)) {
      const found = known.get(output);
      if (found !== undefined) labels.set(tensor, found);
    }
  }
  return labels;
}
