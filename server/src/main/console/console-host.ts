/** The server as its console sees it. Part of the composition root. */
import type { ServerOptions } from "../../config/flags/server-options.ts";
import { LogRing } from "../../observe/log-ring.ts";
import type { MetricRegistry } from "../../observe/metrics.ts";
import { RecentTraces } from "../../observe/trace/recent-traces.ts";
import { importOptional } from "../../packages/optional-package.ts";
import type { ConsoleHost, ConsoleModule, HostedVersion } from "../../protocol/console/console-host.ts";
import type { ConsoleFinding, ConsoleLatency } from "../../protocol/console/console-types.ts";
import type { RepositoryServer } from "../../repository/model-server.ts";
import type { ModelVersion } from "../../repository/model-version.ts";
import type { ModelRegistry } from "../../repository/registry.ts";
import type { RepositoryLocation } from "../../repository/source/repository-location.ts";
import { EditedConfigs } from "./edited-configs.ts";
import { localFolderOf } from "./local-folder.ts";

const MAX_LOG_RECORDS = 5000;

/** Parts that exist before the server. */
export interface ConsoleRecords {
  readonly logs: LogRing;
  readonly traces: RecentTraces;
}

export interface ConsoleHostParts {
  readonly options: ServerOptions;
  readonly registry: ModelRegistry;
  readonly metrics: MetricRegistry;
  readonly server: RepositoryServer;
  readonly places: readonly RepositoryLocation[];
}

/** Contract of the package's module that examines one model. */
interface DiagnosisModule {
  diagnoseModel(repositoryPath: string, model: string): Promise<readonly ConsoleFinding[]>;
}

export function createConsoleRecords(): ConsoleRecords {
  return { logs: new LogRing(MAX_LOG_RECORDS), traces: new RecentTraces() };
}

export function createConsoleHost(parts: ConsoleHostParts, records: ConsoleRecords): ConsoleHost & AsyncDisposable {
  const { options, registry, metrics, server, places } = parts;
  const folderOf = (model: string): string => localFolderOf(places, model);
  const { configName, autoComplete } = options.repository;
  const editor = new EditedConfigs({ server, folderOf, configName, autoComplete });
  return {
    ...records,
    editor,
    versions: () => [...registry.allReady()].map(hostedVersion),
    samples: (family) => metrics.samples(family),
    async diagnose(model) {
      const repository = folderOf(editor.originalOf(model) ?? model);
      const { diagnoseModel } = await importOptional<DiagnosisModule>(
        "@nereid/offline",
        "repository/check/diagnose-model",
        "the diagnosis of a model",
      );
      return diagnoseModel(repository, editor.originalOf(model) ?? model);
    },
    page: async () => (await loadConsole()).readPage(),
    [Symbol.asyncDispose]: () => editor[Symbol.asyncDispose](),
  };
}

/** @throws MissingPackageError */
export function loadConsole(): Promise<ConsoleModule> {
  return importOptional<ConsoleModule>("@nereid/console", "console-module", "the console");
}

function hostedVersion(model: ModelVersion): HostedVersion {
  const { name, version, config, instances, inFlight, loadSeconds, statistics } = model;
  return {
    ...{ name, version, config, inFlight, loadSeconds },
    numInstances: instances.length,
    pending: statistics.pending,
    latency: () => latencyOf(model),
  };
}

function latencyOf({ statistics: { latencies } }: ModelVersion): ConsoleLatency | undefined {
  const summary = latencies?.summaries.get("request");
  if (summary === undefined) return undefined;
  const nowMs = performance.now();
  const [p50Us = Number.NaN, p90Us = Number.NaN, p99Us = Number.NaN] = summary.quantiles([0.5, 0.9, 0.99], nowMs);
  return Number.isNaN(p50Us) ? undefined : { p50Us, p90Us, p99Us };
}
