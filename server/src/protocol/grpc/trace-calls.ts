/** Traces of inference requests over gRPC: sampling, and the end of a trace (Triton's trace extension). */
import type { ModelServer } from "../../core/model-server.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import type { Metadata } from "./routes/method.ts";

/** `readMs`: when the message was there to be read. Undefined when the request is not sampled. */
export function startTrace(
  tracing: ModelServer["tracing"],
  modelName: string,
  metadata: Metadata,
  readMs: number,
): RequestTrace | undefined {
  const trace = tracing.start(modelName, { header: (name) => metadata[name] });
  trace?.mark("GRPC_WAITREAD_START", readMs);
  trace?.mark("GRPC_WAITREAD_END", performance.now());
  return trace;
}

/** The answer is out, or the client is gone. */
export function endTrace(trace: RequestTrace): void {
  trace.mark("GRPC_SEND_END", performance.now());
  trace.end();
}
