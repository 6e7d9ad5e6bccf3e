/** Traces of inference requests over gRPC: sampling, and the end of a trace (Triton's trace extension). */
import type { ModelServer } from "../../core/model-server.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import { sampledTrace } from "../sampled-trace.ts";
import type { Metadata } from "./routes/method.ts";

/** `readMs`: when the message was there to be read. Undefined when the request is not sampled. */
export function startGrpcTrace(
  tracing: ModelServer["tracing"],
  modelName: string,
  metadata: Metadata,
  readMs: number,
): RequestTrace | undefined {
  return sampledTrace(tracing, modelName, { header: (name) => metadata[name] }, [
    ["GRPC_WAITREAD_START", readMs],
    ["GRPC_WAITREAD_END", performance.now()],
  ]);
}

/** The answer is out, or the client is gone. */
export function endTrace(trace: RequestTrace): void {
  trace.mark("GRPC_SEND_END", performance.now());
  trace.end();
}
