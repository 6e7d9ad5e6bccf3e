/** One call of a tool on its way through a model. Source: own design. */

import type { ModelServer, ServedModel } from "../../core/model-server.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import type { CallFacts, TokenMeter } from "../../text-model/text-request.ts";
import type { RouteCall } from "../api/route.ts";
import { startHttpTrace } from "../http/trace-calls.ts";
import type { McpToolCall, McpToolResult } from "./mcp-endpoint.ts";

/** The part of a tool: the call, and the HTTP request that brought it. */
export interface ToolRun {
  readonly call: McpToolCall;
  readonly route: RouteCall;
  readonly facts: CallFacts;
}

/** The client cancels a call, or leaves. */
export class ToolFacts implements CallFacts {
  readonly id: string;
  readonly arrivalMs: number;
  readonly trace: RequestTrace | undefined;
  readonly meter: TokenMeter | undefined;
  readonly signal: AbortSignal;

  constructor({ call, requestId, access }: RouteCall, signal: AbortSignal) {
    this.id = requestId;
    this.arrivalMs = call.arrivalMs;
    this.trace = call.trace;
    this.meter = access;
    this.signal = AbortSignal.any([signal, call.signal]);
  }

  get isCancelled(): boolean {
    return this.signal.aborted;
  }
}

/** @throws AccessRefusal of the caller's key */
export function startTool(server: ModelServer, served: ServedModel, call: McpToolCall, route: RouteCall): ToolRun {
  route.access?.admit(served.name);
  startHttpTrace(server.tracing, served.name, route.call);
  return { call, route, facts: new ToolFacts(route, call.signal) };
}

export function toolResult(structured: Readonly<Record<string, unknown>>, text?: string): McpToolResult {
  return { text: text ?? JSON.stringify(structured), structured, isError: false };
}
