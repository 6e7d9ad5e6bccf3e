/**
 * The Model Context Protocol over streamable HTTP, through its official SDK: requests of the revision 2026-07-28, which stand
 * alone, and sessions of the revisions before it. Source: Model Context Protocol, "Transports", "Tools", "Progress".
 */
import {
  type AuthInfo,
  createMcpHandler,
  isLegacyRequest,
  type McpRequestContext,
  ProtocolError,
  ProtocolErrorCode,
  Server,
} from "@modelcontextprotocol/server";
import type {
  McpEndpoint,
  McpEndpointParts,
  McpHost,
  McpTool,
  McpToolResult,
  ReportProgress,
} from "@nereid/server/protocol/mcp/mcp-endpoint";
import { Sessions } from "./sessions.ts";

export function createMcpEndpoint(parts: McpEndpointParts): McpEndpoint {
  const create = ({ authInfo }: Pick<McpRequestContext, "authInfo">): Server => createServer(parts, authInfo);
  const handler = createMcpHandler(create, { onerror: parts.onError });
  const sessions = new Sessions({ ...parts, create: (authInfo) => create({ authInfo }) });
  return {
    async answer({ request, body, host, owner }) {
      const authInfo = callerInfo(host, owner);
      const isLegacy = await isLegacyRequest(request, body);
      const session = isLegacy ? await sessions.answer({ request, body, owner, authInfo }) : undefined;
      return session ?? handler.fetch(request, { authInfo, parsedBody: body });
    },
    async close() {
      await Promise.all([sessions.close(), handler.close()]);
    },
  };
}

/** The SDK hands it on to the handlers; no token is in it. */
function callerInfo(host: McpHost, owner: string): AuthInfo {
  return { token: "", clientId: owner, scopes: [], extra: { host } };
}

/** Each request brings its own host: a session lives longer than what its caller may use. */
function hostOf(authInfo: AuthInfo | undefined): McpHost {
  const { host } = authInfo?.extra ?? {};
  if (host === undefined) throw new Error("a request without its host");
  return host as McpHost; // put there by `callerInfo`
}

function createServer({ serverName, serverVersion }: McpEndpointParts, first: AuthInfo | undefined): Server {
  const server = new Server({ name: serverName, version: serverVersion }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", async ({ params }, { http }) => {
    const page = await hostOf(http?.authInfo ?? first).list(params?.cursor);
    if (page === undefined) throw invalidParams("this cursor is none that the server gave");
    return { tools: page.tools.map(toolObject), nextCursor: page.nextCursor };
  });
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq, http }) => {
    const token = mcpReq._meta?.progressToken;
    const report: ReportProgress | undefined =
      token === undefined
        ? undefined
        : (progress, total, message) => {
            const about = { progressToken: token, progress, message, ...(total === undefined ? {} : { total }) };
            // The stream is gone: so is its reader.
            mcpReq.notify({ method: "notifications/progress", params: about }).catch(() => undefined);
          };
    const call = { name: params.name, arguments: params.arguments ?? {}, signal: mcpReq.signal, report };
    const result = await hostOf(http?.authInfo ?? first).call(call);
    if (result === undefined) throw invalidParams(`unknown tool '${params.name.slice(0, MAX_SHOWN)}'`);
    return toolAnswer(result);
  });
  return server;
}

const MAX_SHOWN = 100;

function invalidParams(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}

function toolObject({ inputSchema, outputSchema, ...tool }: McpTool) {
  const type = "object" as const;
  return { ...tool, inputSchema: { ...inputSchema, type }, outputSchema: { ...outputSchema, type } };
}

function toolAnswer({ text, structured, isError }: McpToolResult) {
  return {
    content: [{ type: "text" as const, text }],
    ...(structured === undefined ? {} : { structuredContent: structured }),
    ...(isError ? { isError } : {}),
  };
}
