/** The trace of a call, if it is sampled: one start for every protocol (Triton's trace extension). */

import type { ModelServer } from "../core/model-server.ts";
import type { RequestTrace, TraceHeaders, TraceMoment } from "../core/request-trace.ts";

/** `received`: moments of the call before its model was known, in ms of `performance.now()`. */
export function sampledTrace(
  tracing: ModelServer["tracing"],
  modelName: string,
  headers: TraceHeaders,
  received: readonly (readonly [TraceMoment, number])[],
): RequestTrace | undefined {
  if (!tracing.isOn) return undefined;
  const trace = tracing.start(modelName, headers);
  for (const [moment, atMs] of received) trace?.mark(moment, atMs);
  return trace;
}
