/**
 * W3C Trace Context headers (version 00, traceparent and tracestate): parses a client's, formats the propagated ones.
 */
import { MAX_TRACE_STATE_CHARS } from "../../core/limits.ts";
import type { TraceHeaders } from "../../core/request-trace.ts";

/** Parent span of the trace. */
export interface TraceParent {
  /** 32 and 16 lower-case hexadecimal digits. */
  readonly traceId: string;
  readonly spanId: string;
  readonly state: string;
}

const TRACE_PARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

/** Undefined when there is none, or an invalid one. */
export function readTraceParent(headers: TraceHeaders): TraceParent | undefined {
  const match = TRACE_PARENT.exec(headers.header("traceparent") ?? "");
  if (match === null) return undefined;
  const [, version, traceId = "", spanId = "", more] = match;
  if (version === "00" && more !== undefined) return undefined;
  const state = headers.header("tracestate") ?? "";
  return { traceId, spanId, state: state.length > MAX_TRACE_STATE_CHARS ? "" : state };
}

/** JSON text for OpenTelemetry propagators. */
export function traceContextJson({ traceId, spanId, state }: TraceParent): string {
  const traceparent = `00-${traceId}-${spanId}-01`;
  return JSON.stringify(state === "" ? { traceparent } : { traceparent, tracestate: state });
}
