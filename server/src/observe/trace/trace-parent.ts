/** The headers of W3C Trace Context, version 00: reads what a client sent, writes what is handed on. */
import type { TraceHeaders } from "../../core/request-trace.ts";

/** Whose child the trace of a request is. */
export interface TraceParent {
  /** 32 and 16 lower-case hexadecimal digits. */
  readonly traceId: string;
  readonly spanId: string;
  readonly state: string;
}

const TRACE_PARENT = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
/** What the recommendation asks everybody to carry; a longer state is dropped, which it allows. */
const MAX_STATE_CHARS = 512;

/** Undefined when there is none, or none that can be trusted. */
export function readTraceParent(headers: TraceHeaders): TraceParent | undefined {
  const match = TRACE_PARENT.exec(headers.header("traceparent") ?? "");
  if (match === null) return undefined;
  const [, version, traceId = "", spanId = "", more] = match;
  if (version === "00" && more !== undefined) return undefined;
  const state = headers.header("tracestate") ?? "";
  return { traceId, spanId, state: state.length > MAX_STATE_CHARS ? "" : state };
}

/** As the JSON text that propagators of OpenTelemetry read. */
export function traceContextJson({ traceId, spanId, state }: TraceParent): string {
  const traceparent = `00-${traceId}-${spanId}-01`;
  return JSON.stringify(state === "" ? { traceparent } : { traceparent, tracestate: state });
}
