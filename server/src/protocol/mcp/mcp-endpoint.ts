/**
 * The contract between this server and the package that speaks the Model Context Protocol: the server has tools, the package
 * has the protocol. Source: Model Context Protocol, revision 2026-07-28, "Tools".
 */
import type { JsonObject } from "../../core/json-object.ts";

export interface McpTool {
  /** Letters, digits, `_` and `-`, at most 64: what every language model may call. */
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject;
}

export interface McpToolPage {
  readonly tools: readonly McpTool[];
  /** Begins the next page; absent: this is the last. */
  readonly nextCursor?: string | undefined;
}

export interface McpToolResult {
  readonly text: string;
  /** Follows the tool's `outputSchema`; absent for an error. */
  readonly structured?: Readonly<Record<string, unknown>> | undefined;
  readonly isError: boolean;
}

/** How far a call is; `text` is what came since the last report. */
export type ReportProgress = (progress: number, total: number | undefined, text: string) => void;

export interface McpToolCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
  /** Absent: the client wants no reports. */
  readonly report?: ReportProgress | undefined;
}

/** The tools that one caller may see and call. */
export interface McpHost {
  /** Undefined for a cursor that this server did not give. */
  list(cursor: string | undefined): Promise<McpToolPage | undefined>;
  /** Undefined for an unknown name. Refusals and failures are results. */
  call(call: McpToolCall): Promise<McpToolResult | undefined>;
}

/** One HTTP request, as the standards of the web have it. */
export interface McpExchange {
  readonly request: Request;
  /** The JSON of the request's body; undefined without one. */
  readonly body: unknown;
  readonly host: McpHost;
  /** To whom a session belongs: another caller cannot use it. "" without keys. */
  readonly owner: string;
}

export interface McpEndpoint {
  answer(exchange: McpExchange): Promise<Response>;
  /** Ends sessions and open streams. */
  close(): Promise<void>;
}

export interface McpEndpointParts {
  readonly serverName: string;
  readonly serverVersion: string;
  /** Sessions that are open at once, of all callers: the one that was idle longest ends for a new one. */
  readonly maxSessions: number;
  readonly sessionIdleMs: number;
  /** An error that no client is told. */
  readonly onError: (error: Error) => void;
}

/** The exports of the package. */
export interface McpModule {
  createMcpEndpoint(parts: McpEndpointParts): McpEndpoint;
}
