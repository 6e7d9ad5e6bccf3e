/**
 * `/mcp`: the models of the repositories as tools, over streamable HTTP. The protocol itself is in the package `@nereid/mcp`.
 * Source: Model Context Protocol, revision 2026-07-28, "Transports".
 */
import { MAX_MCP_BODY_BYTES } from "../../core/limits.ts";
import type { ModelServer } from "../../core/model-server.ts";
import { describeThrown } from "../../core/server-error.ts";
import type { TextModels } from "../../text-model/text-models.ts";
import { ApiError } from "../api/api-error.ts";
import { JsonApi, type JsonApiParts } from "../api/json-api.ts";
import type { ApiReply, ApiRoute, RouteCall } from "../api/route.ts";
import { Restrictions } from "../restriction.ts";
import type { McpEndpoint, McpModule } from "./mcp-endpoint.ts";
import { mcpError, mcpErrorBody } from "./mcp-error.ts";
import { ModelTools } from "./model-tools.ts";
import { replyOf, webRequest } from "./web-messages.ts";

export const MCP_PATH = "/mcp";
/** Each holds some kilobytes. The one that was idle longest ends for a new one. */
const MAX_SESSIONS = 1024;
const SESSION_IDLE_MS = 30 * 60_000;
const ANY_ORIGIN = "*";

export interface McpApiParts
  extends Pick<JsonApiParts, "restricted" | "openAiRestricted" | "maxBodyBytes" | "log" | "load" | "keys"> {
  readonly server: ModelServer;
  readonly models: TextModels;
  readonly module: McpModule;
  /** Pages of other origins that may call, as `--cors-origins` names them. */
  readonly origins: readonly string[];
}

export interface McpApi {
  readonly api: JsonApi;
  /** Ends sessions and open streams, which would keep the server from ending. */
  close(): Promise<void>;
}

export function createMcpApi(parts: McpApiParts): McpApi {
  const { server, module, log } = parts;
  const endpoint = module.createMcpEndpoint({
    serverName: server.name,
    serverVersion: server.version,
    maxSessions: MAX_SESSIONS,
    sessionIdleMs: SESSION_IDLE_MS,
    onError: (error) => log.verbose(1, "mcp", describeThrown(error)),
  });
  const api = new JsonApi({
    ...parts,
    maxBodyBytes: Math.min(parts.maxBodyBytes, MAX_MCP_BODY_BYTES),
    routes: mcpRoutes(new McpCalls(parts, endpoint)),
    errorOf: mcpError,
    errorBody: mcpErrorBody,
  });
  return { api, close: () => endpoint.close() };
}

export function mcpRoutes(calls: Pick<McpCalls, "answer">): readonly ApiRoute[] {
  const rows = [
    ["POST", "A message of the Model Context Protocol", { type: "object" }],
    ["GET", "Messages of a session of the Model Context Protocol, as events", undefined],
    ["DELETE", "End a session of the Model Context Protocol", undefined],
  ] as const;
  return rows.map(([method, summary, body]) => ({
    method,
    path: MCP_PATH,
    api: "inference",
    summary,
    body,
    handle: (route, json) => calls.answer(route, json),
  }));
}

class McpCalls {
  readonly #endpoint: McpEndpoint;
  readonly #tools: ModelTools;
  readonly #restrictions: Restrictions;
  readonly #origins: ReadonlySet<string>;

  constructor({ server, models, restricted, origins }: McpApiParts, endpoint: McpEndpoint) {
    this.#endpoint = endpoint;
    this.#tools = new ModelTools({ server, models });
    this.#restrictions = new Restrictions(restricted);
    this.#origins = new Set(origins);
  }

  /** @throws ApiError @throws AccessRefusal */
  async answer(route: RouteCall, body: unknown): Promise<ApiReply> {
    const { call, access } = route;
    this.#expectOrigin(call.header("origin"));
    // The list of tools shows the metadata of models.
    const missing = this.#restrictions.missingKey("metadata", (name) => call.header(name));
    if (missing !== undefined) throw forbidden(`This API is restricted, expecting header '${missing}'`);
    access?.expect("metadata", "");
    const exchange = { request: webRequest(call), body, host: this.#tools.hostOf(route), owner: access?.owner ?? "" };
    return replyOf(await this.#endpoint.answer(exchange), call.signal);
  }

  /**
   * Browsers alone send an origin. A page whose name leads to this machine by DNS rebinding sends its own, which nobody
   * allowed ("Transports", Security Warning).
   */
  #expectOrigin(origin: string | undefined): void {
    if (origin === undefined || this.#origins.has(origin) || this.#origins.has(ANY_ORIGIN)) return;
    throw forbidden("This origin is not allowed: name it in --cors-origins");
  }
}

function forbidden(message: string): ApiError {
  return new ApiError({ status: 403, type: "permission_error", code: "forbidden", param: null, message });
}
