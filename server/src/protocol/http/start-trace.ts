/** Starts the trace of a sampled call (Triton's trace extension). The front end ends it with the answer. */
import type { ModelServer } from "../../core/model-server.ts";
import type { HttpCall } from "./http-call.ts";
import { TimedTrace } from "./timed-trace.ts";

/** A client that sends this header, with any value, gets Server-Timing. */
const WANTS_TIMING = "x-server-timing";

export function startTrace(tracing: ModelServer["tracing"], modelName: string, call: HttpCall): void {
  const sampled = tracing.isOn ? tracing.start(modelName, call) : undefined;
  call.trace = call.header(WANTS_TIMING) === undefined ? sampled : new TimedTrace(sampled);
  call.trace?.mark("HTTP_RECV_START", call.arrivalMs);
}
