/** Builds the server, wires its parts together, shuts it down. */
import type { Backend } from "../backend/backend.ts";
import { NativeAgent } from "../backend/native-host/native-agent.ts";
import type { ModelControl } from "../backend/python/questions.ts";
import type { ServerOptions } from "../config/flags/server-options.ts";
import type { ModelServer } from "../core/model-server.ts";
import { ERROR_CODE_NAMES, invalidArgument, ServerError } from "../core/server-error.ts";
import type { SpareHost } from "../engine/host/spare-host.ts";
import { keepFreedMemory } from "../native/process-memory.ts";
import type { ServerLog } from "../observe/log.ts";
import { MetricRegistry } from "../observe/metrics.ts";
import { Tracer } from "../observe/trace/tracer.ts";
import { importOptional } from "../packages/optional-package.ts";
import type { ConsoleHost } from "../protocol/console/console-host.ts";
import type { McpModule } from "../protocol/mcp/mcp-endpoint.ts";
import { AgentFinder } from "../repository/agents/agent-finder.ts";
import type { ModelManager } from "../repository/model-manager.ts";
import { RepositoryServer } from "../repository/model-server.ts";
import { ModelRegistry } from "../repository/registry.ts";
import type { RepositoryLocation } from "../repository/source/repository-location.ts";
import { RepositoryPoller } from "../repository/source/repository-poller.ts";
import { closeBackends, createBackends } from "./backends.ts";
import { type ConsoleRecords, createConsoleHost, createConsoleRecords, loadConsole } from "./console/console-host.ts";
import { frontendsOf, type RunningFrontends } from "./frontends.ts";
import { logGpuLibraries, watchGpus } from "./gpus.ts";
import { logTables } from "./log-tables.ts";
import { createManager } from "./manager.ts";
import { type OpenAccess, openAccess } from "./open-access.ts";
import { openCaches, type ResponseCaches } from "./open-caches.ts";
import { openLoadsWarning } from "./open-loads.ts";
import { registerMetrics } from "./register-metrics.ts";
import { openPlaces } from "./repository-locations.ts";
import { stopServer } from "./stop-server.ts";
import { workerOptions } from "./workers/worker-options.ts";

/** The release of Triton whose behaviour this server has: clients and tools look at it. */
export const TRITON_VERSION = "2.70.0";
/** Message of the error with which a start ends when a model does not load; Triton's text. */
export const MODELS_NOT_LOADED = "failed to load all models";

const MS_PER_S = 1000;

export interface RunningServer {
  readonly server: ModelServer;
  readonly endpoints: RunningFrontends["endpoints"];
  /**
   * Ends in order: not ready, no new requests, accepted ones finish, the rest is cancelled after the time allowed, models
   * unload callers first, metrics go last. Resolves false when the time ran out. `isHandedOver`: another process has the sockets.
   */
  stop(isHandedOver?: boolean): Promise<boolean>;
  /** The metrics page. */
  renderMetrics(): Promise<string>;
  /** Cancels what is still in flight; for people who do not want to wait. */
  hurry(): void;
}

/** Parts of a server, before it has models and listeners. */
interface Parts {
  readonly options: ServerOptions;
  readonly log: ServerLog;
  readonly places: readonly RepositoryLocation[];
  readonly registry: ModelRegistry;
  readonly metrics: MetricRegistry;
  readonly backends: ReadonlyMap<string, Backend>;
  readonly caches: ResponseCaches;
  readonly tracer: Tracer;
  readonly agents: AgentFinder;
  readonly manager: ModelManager;
  readonly server: RepositoryServer;
  readonly poller: RepositoryPoller;
  /** Absent: calls need no key. */
  readonly access: OpenAccess | undefined;
  readonly mcp: McpModule | undefined;
  /** Absent: there is no console. */
  readonly console: (ConsoleHost & AsyncDisposable) | undefined;
}

export interface StartOptions {
  /** A supervisor holds the ports, and has the one of the metrics to itself. */
  readonly isWorker?: boolean;
  /** The caller disposes of it. */
  readonly spareHost?: SpareHost;
}

/**
 * @throws ServerError when a model fails to load and the options say that this ends the start, or a port is taken
 */
export async function startServer(
  given: ServerOptions,
  log: ServerLog,
  { isWorker = false, spareHost }: StartOptions = {},
): Promise<RunningServer> {
  keepFreedMemory();
  const options = isWorker ? workerOptions(given) : given;
  const parts = await buildParts(options, log, spareHost);
  const { registry, metrics, caches, places, server, tracer, poller } = parts;
  registerMetrics(options, registry, metrics, caches);
  logGpuLibraries(log);
  const gpuWatch = watchGpus(options.metrics, log);
  for (const family of gpuWatch?.families ?? []) metrics.register(family);
  const frontends = await openFrontends(parts, isWorker);
  const hurried = new AbortController();
  return {
    server,
    endpoints: frontends.endpoints,
    hurry: () => {
      hurried.abort();
      frontends.hurry();
    },
    renderMetrics: () => metrics.page(),
    stop(isHandedOver = false) {
      poller[Symbol.dispose]();
      for (const place of places) void place.close(); // nobody waits for a model that is still on its way
      gpuWatch?.[Symbol.dispose]();
      const close = (): Promise<void> => closeParts(parts);
      const { signal } = hurried;
      return stopServer({ options, log, server, registry, tracer, frontends, close, hurried: signal, isHandedOver });
    },
  };
}

async function buildParts(options: ServerOptions, log: ServerLog, spareHost?: SpareHost): Promise<Parts> {
  const places = await orStay(options, log, () => openPlaces(options, log));
  const registry = new ModelRegistry(options.repository.isNamespacing);
  const metrics = new MetricRegistry();
  // Models may load and unload others, once there is a server.
  const control: ModelControl = {
    load: (name, loadOptions) => server.load(name, loadOptions),
    unload: (name, unloadDependents) => server.unload(name, unloadDependents),
    modelReady: (name, version) => server.modelReady(name, version),
  };
  const mcp = options.openai.allowsMcp ? await loadMcp() : undefined;
  const access = await openAccess(options.openai, metrics, log);
  const records = await openRecords(options, log);
  const backends = createBackends(control, options.backendDirectory, spareHost);
  const caches = await openCaches(options.cache, log);
  const tracer = new Tracer({ start: options.trace, log, env: process.env, recent: records?.traces });
  const agents = new AgentFinder(options.repoAgentDirectory, (name, path) => {
    return new NativeAgent({ name, path, environment: process.env, log });
  });
  const manager = createManager({ options, log, registry, metrics, backends, caches, agents, places: places ?? [] });
  const server: RepositoryServer = new RepositoryServer({
    name: options.serverId,
    version: TRITON_VERSION,
    registry,
    manager,
    log,
    tracing: tracer,
    // One of several processes cannot change the models of all.
    isExplicit: options.repository.controlMode === "explicit" && options.workerCount <= 1,
    strictReadiness: options.repository.strictReadiness,
    refusesOverrides: options.repository.loadOverrides === "names-only",
  });
  const openLoads = openLoadsWarning(options);
  if (openLoads !== undefined) log.warn("server", openLoads);
  if (places === undefined) server.state = "failed";
  const poller = new RepositoryPoller(manager, log);
  const ofConsole = { options, registry, metrics, server, places: places ?? [] };
  return {
    console: records && createConsoleHost(ofConsole, records),
    options,
    log,
    places: places ?? [],
    registry,
    metrics,
    backends,
    caches,
    tracer,
    agents,
    manager,
    server,
    poller,
    access,
    mcp,
  };
}

/**
 * Undefined when a step of the setup fails and `--exit-on-error=false` keeps the process: `InferenceServer::Init` of Triton,
 * which then serves the state "failed to initialize". @throws ServerError otherwise
 */
async function orStay<T>(
  { repository }: ServerOptions,
  log: ServerLog,
  action: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await action();
  } catch (error) {
    if (repository.exitOnError || !(error instanceof ServerError)) throw error;
    log.error("server", `${ERROR_CODE_NAMES[error.code]}: ${error.message}`);
    return undefined;
  }
}

/** Records of the past for a console; undefined: there is none. @throws MissingPackageError when it was asked for */
async function openRecords({ console }: ServerOptions, log: ServerLog): Promise<ConsoleRecords | undefined> {
  if (!console.isEnabled) return undefined;
  if (console.isRequired) await loadConsole();
  const records = createConsoleRecords();
  log.keepIn(records.logs);
  return records;
}

/** @throws MissingPackageError */
function loadMcp(): Promise<McpModule> {
  return importOptional("@nereid/mcp", "mcp-module", "--allow-mcp");
}

/** Loads the models, then listens. @throws ServerError after all parts are closed */
async function openFrontends(parts: Parts, isWorker: boolean): Promise<RunningFrontends> {
  const { options, log, metrics, server, poller, access, mcp, console } = parts;
  try {
    const frontends = frontendsOf(options, server, metrics, log, { keys: access?.keys, mcp, console });
    if (!isWorker) await frontends.expectFree(); // models may take minutes
    if (server.state !== "failed") await loadModels(parts);
    await frontends.listen();
    return frontends;
  } catch (error) {
    poller[Symbol.dispose]();
    await closeParts(parts);
    throw error;
  }
}

/** @throws ServerError when a model fails to load and the options say that this ends the start */
async function loadModels(parts: Parts): Promise<void> {
  const { options, log, manager, server, poller } = parts;
  const { repository } = options;
  const failures = await orStay(options, log, () => manager.loadAtStart(startupModels(options)));
  if (failures !== undefined) {
    logTables(parts, failures);
    if (failures.size > 0 && repository.exitOnError) throw notLoaded(failures);
  }
  if (options.workerCount > 1) expectNoSequences(parts.registry, options.workerCount);
  for (const message of options.notYet) log.warn("server", message);
  server.state = failures === undefined ? "failed" : "running";
  if (repository.controlMode === "poll" && failures !== undefined) poller.start(repository.pollSecs * MS_PER_S);
}

/** @throws ServerError when a model keeps a state between requests, which may reach other processes */
function expectNoSequences(registry: ModelRegistry, workerCount: number): void {
  const found = [...registry.allReady()].find(({ config }) => config.sequence_batching !== undefined);
  if (found === undefined) return;
  const why = `sequence_batching needs all requests of a sequence in one process, got --workers=${workerCount}. Use --workers=1`;
  throw invalidArgument(`Model '${found.name}': ${why}`);
}

async function closeParts({ manager, backends, caches, access, console }: Parts): Promise<void> {
  await console?.[Symbol.asyncDispose]();
  await access?.close();
  await closeBackends(manager, backends);
  await caches.remoteCache?.[Symbol.asyncDispose]();
}

/** Its cause is an `AggregateError` with the error of each model. */
function notLoaded(failures: ReadonlyMap<string, ServerError>): ServerError {
  return new ServerError("internal", MODELS_NOT_LOADED, { cause: new AggregateError(failures.values()) });
}

/** Undefined = all models of the repositories. */
function startupModels({ repository }: ServerOptions): readonly string[] | undefined {
  if (repository.controlMode !== "explicit" || repository.startupModels.includes("*")) return undefined;
  return repository.startupModels;
}
