/** Starts the trace of a sampled call (Triton's trace extension). The front end ends it with the answer. */
import type { ModelServer } from "../../core/model-server.ts";
import { sampledTrace } from "../sampled-trace.ts";
import type { HttpCall } from "./http-call.ts";
import { TimedTrace } from "./timed-trace.ts";

/** A client that sends this header, with any value, gets Server-Timing. */
const WANTS_TIMING = "x-server-timing";

export function startHttpTrace(tracing: ModelServer["tracing"], modelName: string, call: HttpCall): void {
  const received = [["HTTP_RECV_START", call.arrivalMs]] as const;
  const sampled = sampledTrace(tracing, modelName, call, received);
  call.trace = call.header(WANTS_TIMING) === undefined ? sampled : new TimedTrace(sampled, received);
}
