/** Builds the server, wires its rooms together, shuts it down. The only file that knows all of them. */
import type { Backend, ModelCaller, UsableGpus } from "../backend/backend.ts";
import { createBlsBackend } from "../backend/bls/bls-backend.ts";
import { createLlmBackend } from "../backend/llm/llm-backend.ts";
import { createOnnxBackends } from "../backend/onnx/onnx-backend.ts";
import { createPoolingBackend } from "../backend/pooling/pooling-backend.ts";
import { createPythonBackend } from "../backend/python/python-backend.ts";
import type { ModelControl } from "../backend/python/questions.ts";
import { createDynaSequenceBackend } from "../backend/testing/dyna-sequence.ts";
import { createIdentityBackend } from "../backend/testing/identity.ts";
import { createIterativeSequenceBackend } from "../backend/testing/iterative-sequence.ts";
import { createRepeatBackend } from "../backend/testing/repeat.ts";
import { createSequenceBackend } from "../backend/testing/sequence.ts";
import { createSquareBackend } from "../backend/testing/square.ts";
import { createTokenizerBackend } from "../backend/tokenizer/tokenizer-backend.ts";
import { loadBatchStrategy } from "../backend/typescript/load-batch-strategy.ts";
import { createTypescriptBackend } from "../backend/typescript/typescript-backend.ts";
import { backendSettingsOf, type ServerOptions } from "../config/flags/server-options.ts";
import {
  emptyModelConfig,
  parseModelConfigJson,
  parseModelConfigText,
  prepareModelConfig,
} from "../config/model/model-config.ts";
import { agentTable, backendTable, type ModelRow, modelTable, optionTable } from "../config/tables.ts";
import type { ModelConfig } from "../core/model-config.ts";
import type { ModelServer } from "../core/model-server.ts";
import { ServerError } from "../core/server-error.ts";
import { visibleGpus } from "../device/cuda/find-gpus.ts";
import { keepFreedMemory } from "../native/process-memory.ts";
import { cpuFamilies, pinnedMemoryFamilies } from "../observe/host-metrics.ts";
import type { ServerLog } from "../observe/log.ts";
import { MetricRegistry } from "../observe/metrics.ts";
import { Tracer } from "../observe/trace/tracer.ts";
import { packagedBackend } from "../packages/packaged-backend.ts";
import { AgentFinder } from "../repository/agents/agent-finder.ts";
import { checkEnsemble } from "../repository/load/ensemble-check.ts";
import { GpuLimits } from "../repository/load/gpu-limits.ts";
import { loadModelVersion } from "../repository/load/load-model.ts";
import { updateInstances } from "../repository/load/update-instances.ts";
import { cacheMetricFamilies } from "../repository/metrics/cache-metrics.ts";
import { latencyMetricFamilies } from "../repository/metrics/latency-metrics.ts";
import { modelMetricFamilies } from "../repository/metrics/model-metrics.ts";
import { modelKeyText } from "../repository/model-key.ts";
import { ModelManager, type ModelManagerOptions } from "../repository/model-manager.ts";
import { RepositoryServer } from "../repository/model-server.ts";
import { ModelRegistry } from "../repository/registry.ts";
import type { PolledModel } from "../repository/source/model-sources.ts";
import type { RepositoryLocation } from "../repository/source/repository-location.ts";
import { RepositoryPoller } from "../repository/source/repository-poller.ts";
import { LatencyObserver } from "../scheduler/latency-observer.ts";
import { RateLimiter } from "../scheduler/rate-limiter.ts";
import { ResourceLimits } from "../scheduler/resource-limits.ts";
import { frontendsOf, type RunningFrontends } from "./frontends.ts";
import { logGpuLibraries, usableGpus, usedGpuShare, watchGpus } from "./gpus.ts";
import { openCaches, type ResponseCaches } from "./open-caches.ts";
import { openPlaces } from "./repository-locations.ts";
import { stopServer } from "./stop-server.ts";

/** The release of Triton whose behaviour this server has: clients and tools look at it. */
export const TRITON_VERSION = "2.70.0";
/** Of the error with which a start ends when a model does not load; Triton's words. */
export const MODELS_NOT_LOADED = "failed to load all models";

const MS_PER_S = 1000;

export interface RunningServer {
  readonly server: ModelServer;
  readonly endpoints: RunningFrontends["endpoints"];
  /**
   * Ends in order: not ready, no new requests, accepted ones finish, the rest is cancelled after the time allowed, models
   * unload callers first, metrics go last. Resolves false when the time ran out.
   */
  stop(): Promise<boolean>;
  /** Cancels what is still in flight; for people who do not want to wait. */
  hurry(): void;
}

/** @throws ServerError when a model fails to load and the options say that this ends the start, or a port is taken */
export async function startServer(options: ServerOptions, log: ServerLog): Promise<RunningServer> {
  keepFreedMemory();
  const places = await openPlaces(options, log);
  const registry = new ModelRegistry(options.repository.isNamespacing);
  const metrics = new MetricRegistry();
  // Models may load and unload others, once there is a server.
  const control: ModelControl = {
    load: (name, loadOptions) => server.load(name, loadOptions),
    unload: (name, unloadDependents) => server.unload(name, unloadDependents),
    modelReady: (name, version) => server.modelReady(name, version),
  };
  const backends = createBackends(control);
  const caches = await openCaches(options.cache, log);
  const tracer = new Tracer({ start: options.trace, log, env: process.env });
  const agents = new AgentFinder(options.repoAgentDirectory);
  const manager = createManager({ options, log, registry, metrics, backends, caches, agents, places });
  const server: RepositoryServer = new RepositoryServer({
    name: options.serverId,
    version: TRITON_VERSION,
    registry,
    manager,
    log,
    tracing: tracer,
    isExplicit: options.repository.controlMode === "explicit",
    strictReadiness: options.repository.strictReadiness,
  });
  registerMetrics(options, registry, metrics, caches);
  logGpuLibraries(log);
  const gpuWatch = watchGpus(options.metrics, log);
  for (const family of gpuWatch?.families ?? []) metrics.register(family);
  const close = async (): Promise<void> => {
    await closeBackends(manager, backends);
    await caches.remoteCache?.[Symbol.asyncDispose]();
  };
  const poller = new RepositoryPoller(manager, log);
  let frontends: RunningFrontends;
  try {
    frontends = frontendsOf(options, server, metrics, log);
    await frontends.expectFree(); // models may take minutes
    const failures = await manager.loadAtStart(startupModels(options));
    logTables(options, log, server, registry, failures, agents);
    if (failures.size > 0 && options.repository.exitOnError) throw notLoaded(failures);
    for (const message of options.notYet) log.warn("server", message);
    server.state = "running";
    if (options.repository.controlMode === "poll") poller.start(options.repository.pollSecs * MS_PER_S);
    await frontends.listen();
  } catch (error) {
    poller[Symbol.dispose]();
    await close();
    throw error;
  }
  const hurried = new AbortController();
  return {
    server,
    endpoints: frontends.endpoints,
    hurry: () => {
      hurried.abort();
      frontends.hurry();
    },
    stop() {
      poller[Symbol.dispose]();
      for (const place of places) void place.close(); // nobody waits for a model that is still on its way
      gpuWatch?.[Symbol.dispose]();
      return stopServer({ options, log, server, registry, tracer, frontends, close, hurried: hurried.signal });
    },
  };
}

/** Its cause is an `AggregateError` with the error of each model. */
function notLoaded(failures: ReadonlyMap<string, ServerError>): ServerError {
  return new ServerError("internal", MODELS_NOT_LOADED, { cause: new AggregateError(failures.values()) });
}

let seenGpus: UsableGpus | undefined;

/** Python models bring their own code: any GPU will do. */
function allGpus(): UsableGpus {
  seenGpus ??= { ids: visibleGpus().map(({ ordinal }) => ordinal), minComputeCapability: 0 };
  return seenGpus;
}

function createBackends(control: ModelControl): ReadonlyMap<string, Backend> {
  const all = [
    ...createOnnxBackends(usableGpus),
    createPythonBackend({ control, findGpus: allGpus }),
    createPythonBackend({ control, findGpus: allGpus, name: "vllm" }),
    createPythonBackend({ control, findGpus: allGpus, name: "pytorch" }),
    createTypescriptBackend(),
    createTokenizerBackend(),
    packagedBackend("image", "@nereid/images", "image-backend"),
    packagedBackend("retrieval", "@nereid/retrieval", "backend/retrieval-backend"),
    createPoolingBackend(),
    createBlsBackend(),
    createLlmBackend("llm", {}, usableGpus),
    createLlmBackend("tensorrtllm", {}, usableGpus),
    createIdentityBackend(),
    createRepeatBackend(),
    createSquareBackend(),
    createSequenceBackend(),
    createDynaSequenceBackend(),
    createIterativeSequenceBackend(),
  ];
  return new Map([...all.map((backend) => [backend.name, backend] as const)]);
}

interface ManagerParts {
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

/** Triton's bounds, in ms, for models that do not name their own. */
const FIRST_RESPONSE_BUCKETS_MS = [100, 500, 2000, 5000];

function createLatencies({ metrics }: ServerOptions, config: ModelConfig): LatencyObserver | undefined {
  if (!metrics.summaryLatencies && !metrics.histogramLatencies) return undefined;
  const control = config.model_metrics?.metric_control.find(
    ({ metric_identifier }) => metric_identifier?.family === "nv_inference_first_response_histogram_ms",
  );
  const bucketsMs = control?.histogram_options?.buckets ?? FIRST_RESPONSE_BUCKETS_MS;
  return new LatencyObserver({
    summaries: metrics.summaryLatencies,
    firstResponseBucketsMs: metrics.histogramLatencies ? bucketsMs : [],
  });
}

function createManager({
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
    settingsOf: (backend: string) => backendSettingsOf(options, backend),
    batchStrategyOf: loadBatchStrategy,
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
    poll: (folder, configJson) => configOf(folder, configJson, repository.autoComplete, onNote),
    checkEnsemble: ({ config, stepKeys }) =>
      checkEnsemble(config, (_, step) => registry.ready(stepKeys[step] ?? "").at(-1)?.config),
    update: (served, model) => updateInstances(context, served, model),
    load: (model, version) => loadModelVersion(context, model, version),
  };
  return new ModelManager(managerOptions);
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

function configOf(
  folder: PolledModel["folder"],
  configJson: string | undefined,
  autoComplete: boolean,
  onNote: (note: string) => void,
): PolledModel["config"] {
  const written =
    configJson !== undefined
      ? parseModelConfigJson(configJson)
      : folder.config !== undefined
        ? parseModelConfigText(folder.config.text, folder.config.path, onNote)
        : emptyModelConfig();
  if (folder.config === undefined && configJson === undefined && !autoComplete) {
    throw new ServerError("not_found", `model '${folder.name}' has no config.pbtxt, and auto-complete is off`);
  }
  return prepareModelConfig({ written, modelName: folder.name, artifacts: folder.artifacts, autoComplete });
}

function registerMetrics(
  options: ServerOptions,
  registry: ModelRegistry,
  metrics: MetricRegistry,
  { cache, remoteCache }: ResponseCaches,
): void {
  for (const family of cacheMetricFamilies(cache, registry, remoteCache)) metrics.register(family);
  const latencies = {
    summaries: options.metrics.summaryLatencies,
    quantiles: options.metrics.summaryQuantiles.map(({ quantile }) => quantile),
    histograms: options.metrics.histogramLatencies,
  };
  for (const family of latencyMetricFamilies(registry, latencies)) metrics.register(family);
  for (const family of modelMetricFamilies(registry)) metrics.register(family);
  for (const family of pinnedMemoryFamilies(options.memory.pinnedPoolBytes)) metrics.register(family);
  if (options.metrics.cpu) for (const family of cpuFamilies()) metrics.register(family);
}

/** Undefined = all models of the repositories. */
function startupModels({ repository }: ServerOptions): readonly string[] | undefined {
  if (repository.controlMode !== "explicit" || repository.startupModels.includes("*")) return undefined;
  return repository.startupModels;
}

function logTables(
  options: ServerOptions,
  log: ServerLog,
  server: ModelServer,
  registry: ModelRegistry,
  failures: ReadonlyMap<string, ServerError>,
  agents: AgentFinder,
): void {
  log.table("server", agentTable(agents.used()));
  log.table("server", backendTable(usedBackends(registry), options));
  log.table("server", modelTable(modelRows(registry, failures)));
  if (options.metrics.cpu) log.info("metrics", "Collecting CPU metrics");
  log.table("server", optionTable(options, server));
}

/** Backends of the models that are up. They are part of this program, so there is no library to name. */
function usedBackends(registry: ModelRegistry): { name: string; path: string }[] {
  const names = [...registry.allReady()].flatMap(({ config }) => (config.backend === "" ? [] : [config.backend]));
  return [...new Set(names)].sort().map((name) => ({ name, path: "<built in>" }));
}

function modelRows(registry: ModelRegistry, failures: ReadonlyMap<string, ServerError>): ModelRow[] {
  const tried = registry.keys().flatMap((key) =>
    [...registry.versions(key)].map(([version, { state, reason }]) => ({
      name: modelKeyText(key),
      version,
      status: reason === "" ? state : `${state}: ${reason}`,
    })),
  );
  const never = [...failures].filter(([key]) => !registry.isKnown(key));
  return [
    ...tried,
    ...never.map(([key, { message }]) => ({
      name: modelKeyText(key),
      version: undefined,
      status: `Not loaded: ${message}`,
    })),
  ];
}

async function closeBackends(manager: ModelManager, backends: ReadonlyMap<string, Backend>): Promise<void> {
  await manager.close();
  await Promise.all([...new Set(backends.values())].map((backend) => backend.close()));
}
