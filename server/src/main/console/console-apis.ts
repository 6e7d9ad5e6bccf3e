/** The console among the APIs of the HTTP port. Part of the composition root. */
import type { KeyGate } from "../../access/key-gate.ts";
import { isLoopback } from "../../config/flags/loopback.ts";
import type { ServerOptions } from "../../config/flags/server-options.ts";
import type { ModelServer } from "../../core/model-server.ts";
import type { Logger } from "../../observe/log.ts";
import type { JsonApi } from "../../protocol/api/json-api.ts";
import { createConsoleApi } from "../../protocol/console/console-api.ts";
import type { ConsoleHost } from "../../protocol/console/console-host.ts";
import { keysFor, restrictedGroups } from "../listener-access.ts";

export interface ConsoleApiParts {
  readonly options: ServerOptions;
  readonly server: ModelServer;
  readonly log: Logger;
  readonly keys: KeyGate | undefined;
  /** Absent: there is no console. */
  readonly console: ConsoleHost | undefined;
}

/** One, or none. */
export function consoleApis({ options, server, log, keys, console: host }: ConsoleApiParts): JsonApi[] {
  if (host === undefined) return [];
  const { address, accessKeys, maxInputBytes } = options.http;
  const api = createConsoleApi({
    ...{ server, host, log },
    isLocal: isLoopback(address) && !options.console.isRequired,
    hasOpenAi: options.openai.isEnabled,
    restricted: restrictedGroups(accessKeys),
    maxBodyBytes: maxInputBytes,
    keys: keysFor("http", { options, keys }),
  });
  return [api];
}
