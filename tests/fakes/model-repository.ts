/** Model repositories on disk for tests, and the manager that serves them with the sample backends. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Backend } from "../../server/src/backend/backend.ts";
import { createIdentityBackend } from "../../server/src/backend/testing/identity.ts";
import { DEFAULT_LOG_SETTINGS, ServerLog } from "../../server/src/observe/log.ts";
import { MetricRegistry } from "../../server/src/observe/metrics.ts";
import { AgentFinder } from "../../server/src/repository/agents/agent-finder.ts";
import type { RepositoryAgent } from "../../server/src/repository/agents/repository-agent.ts";
import { checkEnsemble } from "../../server/src/repository/load/ensemble-check.ts";
import type { GpuLimits } from "../../server/src/repository/load/gpu-limits.ts";
import { loadModelVersion } from "../../server/src/repository/load/load-model.ts";
import { updateInstances } from "../../server/src/repository/load/update-instances.ts";
import { ModelManager } from "../../server/src/repository/model-manager.ts";
import { ModelRegistry } from "../../server/src/repository/registry.ts";
import { modelConfigOf } from "../../server/src/repository/source/model-config-of.ts";
import { localLocation, type RepositoryLocation } from "../../server/src/repository/source/repository-location.ts";
import type { RemoteResponseCache } from "../../server/src/scheduler/cache/remote-response-cache.ts";
import type { ResponseCache } from "../../server/src/scheduler/cache/response-cache.ts";
import type { RateLimiter } from "../../server/src/scheduler/rate-limiter.ts";

export interface TestRepository extends AsyncDisposable {
  readonly path: string;
  readonly registry: ModelRegistry;
  readonly manager: ModelManager;
  readonly errors: readonly string[];
  write(path: string, text: string): void;
  remove(path: string): void;
}

export interface TestRepositoryOptions {
  /** Folders that are repositories of their own, with namespacing; none = the whole is one. */
  readonly namespaces?: readonly string[];
  readonly limiter?: RateLimiter;
  readonly gpuLimits?: GpuLimits;
  readonly remoteCache?: RemoteResponseCache;
  /** Folders that are repositories side by side, without namespacing. */
  readonly folders?: readonly string[];
  readonly configName?: string;
  readonly loadRetries?: number;
  /** Turns the verbose log on. */
  readonly onVerbose?: (line: string) => void;
  /** In place of folders of this machine. */
  readonly places?: readonly RepositoryLocation[];
  /** Undefined = only built-in agents. */
  readonly findAgent?: (name: string) => Promise<RepositoryAgent>;
}

/** A complete identity model: INPUT0 and OUTPUT0 of INT32 [-1]. */
export function identityConfig(extra = ""): string {
  return `backend: "identity"
max_batch_size: 4
input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ -1 ] } ]
${extra}`;
}

function repositoriesOf(path: string, { namespaces = [], folders = [] }: TestRepositoryOptions): string[] {
  const parts = [...namespaces, ...folders];
  return parts.length === 0 ? [path] : parts.map((folder) => join(path, folder));
}

export function createTestRepository(
  files: Readonly<Record<string, string>>,
  more: readonly Backend[] = [],
  cache?: ResponseCache,
  options: TestRepositoryOptions = {},
): TestRepository {
  const path = mkdtempSync(join(tmpdir(), "nereid-repository-"));
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(path, file)), { recursive: true });
    writeFileSync(join(path, file), text);
  };
  for (const [file, text] of Object.entries(files)) write(file, text);
  const errors: string[] = [];
  const { onVerbose = () => undefined } = options;
  const sink = { out: onVerbose, err: (line: string) => void errors.push(line) };
  const log_verbose_level = options.onVerbose === undefined ? 0 : 1;
  const log = new ServerLog({ ...DEFAULT_LOG_SETTINGS, log_verbose_level }, { sink });
  const { namespaces = [], limiter, findAgent, remoteCache, gpuLimits } = options;
  const isNamespacing = namespaces.length > 0;
  const registry = new ModelRegistry(isNamespacing);
  const context = {
    backends: new Map([createIdentityBackend(), ...more].map((backend) => [backend.name, backend])),
    registry,
    models: {
      infer: (request: Parameters<ReturnType<ModelRegistry["lookUp"]>["infer"]>[0]) =>
        registry.lookUp(request.modelName, request.modelVersion).infer(request),
      signature: (name: string) => registry.lookUp(name, "").signature,
    },
    metrics: new MetricRegistry(),
    log,
    autoComplete: true,
    cache,
    remoteCache,
    gpuLimits,
    limiter,
    latenciesOf: () => undefined,
    settingsOf: () => new Map<string, string>(),
  };
  const manager = new ModelManager({
    places: options.places ?? repositoriesOf(path, options).map(localLocation),
    configName: options.configName ?? "",
    isNamespacing,
    findAgent: findAgent ?? ((name) => new AgentFinder("").find(name)),
    loadThreads: 2,
    loadRetries: options.loadRetries ?? 0,
    registry,
    log,
    poll: (folder, json) => modelConfigOf(folder, json, true, () => undefined),
    checkEnsemble: ({ config, stepKeys }) => checkEnsemble(config, (step) => registry.ready(stepKeys[step] ?? "")),
    update: (served, model) => updateInstances(context, served, model),
    load: (model, version) => loadModelVersion(context, model, version),
  });
  return {
    path,
    registry,
    manager,
    errors,
    write,
    remove: (file) => rmSync(join(path, file), { recursive: true }),
    async [Symbol.asyncDispose]() {
      await manager.close();
      rmSync(path, { recursive: true, force: true });
    },
  };
}
