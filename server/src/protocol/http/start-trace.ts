/** Asks whether a call is sampled, and notes when it began. The front end ends the trace with the answer. */
import type { ModelServer } from "../../core/model-server.ts";
import type { HttpCall } from "./http-call.ts";

export function startTrace(tracing: ModelServer["tracing"], modelName: string, call: HttpCall): void {
  call.trace = tracing.start(modelName, call);
  call.trace?.mark("HTTP_RECV_START", call.arrivalMs);
}
