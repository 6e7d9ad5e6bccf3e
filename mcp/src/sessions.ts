/**
 * Sessions of clients that speak the revisions before 2026-07-28: a client that initializes gets an id, with which it lists,
 * calls and cancels. Source: Model Context Protocol, revision 2025-11-25, "Transports", Session Management.
 */
import { randomUUID } from "node:crypto";
import {
  type AuthInfo,
  isInitializeRequest,
  type Server,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { McpEndpointParts, McpExchange } from "@nereid/server/protocol/mcp/mcp-endpoint";

const SESSION_HEADER = "mcp-session-id";

export interface SessionsParts extends Pick<McpEndpointParts, "maxSessions" | "sessionIdleMs" | "onError"> {
  readonly create: (authInfo: AuthInfo) => Server;
}

export type SessionRequest = Pick<McpExchange, "request" | "body" | "owner"> & { readonly authInfo: AuthInfo };

interface Session {
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly owner: string;
  idle: NodeJS.Timeout;
}

export class Sessions {
  readonly #parts: SessionsParts;
  /** By id, the one that was idle longest first. */
  readonly #open = new Map<string, Session>();

  constructor(parts: SessionsParts) {
    this.#parts = parts;
  }

  /** Undefined: the request belongs to no session, and stands alone. */
  async answer(asked: SessionRequest): Promise<Response | undefined> {
    const { request, body, owner, authInfo } = asked;
    const id = request.headers.get(SESSION_HEADER);
    if (id === null) return isInitializeRequest(body) ? this.#begin(asked) : undefined;
    const session = this.#open.get(id);
    // A session of another caller is unknown, as one that has ended: the client begins anew.
    if (session === undefined || session.owner !== owner) return unknownSession();
    this.#touch(id, session);
    return session.transport.handleRequest(request, { parsedBody: body, authInfo });
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((id) => this.#end(id)));
  }

  async #begin({ request, body, owner, authInfo }: SessionRequest): Promise<Response> {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => this.#add(id, transport, owner),
    });
    const server = this.#parts.create(authInfo);
    server.onerror = this.#parts.onError;
    await server.connect(transport);
    const closed = transport.onclose;
    transport.onclose = () => {
      closed?.();
      this.#forget(transport.sessionId);
    };
    return transport.handleRequest(request, { parsedBody: body, authInfo });
  }

  #add(id: string, transport: WebStandardStreamableHTTPServerTransport, owner: string): void {
    const [oldest] = this.#open.keys();
    if (this.#open.size >= this.#parts.maxSessions && oldest !== undefined) void this.#end(oldest);
    this.#open.set(id, { transport, owner, idle: this.#idleTimer(id) });
  }

  #touch(id: string, session: Session): void {
    clearTimeout(session.idle);
    session.idle = this.#idleTimer(id);
    this.#open.delete(id);
    this.#open.set(id, session);
  }

  #idleTimer(id: string): NodeJS.Timeout {
    return setTimeout(() => void this.#end(id), this.#parts.sessionIdleMs).unref();
  }

  async #end(id: string): Promise<void> {
    const session = this.#open.get(id);
    this.#forget(id);
    await session?.transport.close();
  }

  #forget(id: string | undefined): void {
    const session = id === undefined ? undefined : this.#open.get(id);
    if (id === undefined || session === undefined) return;
    clearTimeout(session.idle);
    this.#open.delete(id);
  }
}

/** The status with which a client begins a new session. */
function unknownSession(): Response {
  const error = { jsonrpc: "2.0", error: { code: -32_001, message: "Session not found" }, id: null };
  return Response.json(error, { status: 404 });
}
