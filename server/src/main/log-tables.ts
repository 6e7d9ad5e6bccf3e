/** The tables that a start writes to the log, in Triton's layout. Part of the composition root. */
import type { ServerOptions } from "../config/flags/server-options.ts";
import { agentTable, backendTable, type ModelRow, modelTable, optionTable } from "../config/tables.ts";
import type { ModelServer } from "../core/model-server.ts";
import type { ServerError } from "../core/server-error.ts";
import type { ServerLog } from "../observe/log.ts";
import type { AgentFinder } from "../repository/agents/agent-finder.ts";
import { modelKeyText } from "../repository/model-key.ts";
import type { ModelRegistry } from "../repository/registry.ts";

export interface LoggedServer {
  readonly options: ServerOptions;
  readonly log: ServerLog;
  readonly server: ModelServer;
  readonly registry: ModelRegistry;
  readonly agents: AgentFinder;
}

/** `failures` are the models that did not load, by key. */
export function logTables(
  { options, log, server, registry, agents }: LoggedServer,
  failures: ReadonlyMap<string, ServerError>,
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
  const never = [...failures].filter(([key]) => registry.versions(key).size === 0);
  return [
    ...tried,
    ...never.map(([key, { message }]) => ({
      name: modelKeyText(key),
      version: undefined,
      status: `Not loaded: ${message}`,
    })),
  ];
}
