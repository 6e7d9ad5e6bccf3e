/**
 * A line for each request over HTTP at verbose level 1, in Triton's words.
 * Source: triton-inference-server/server, http_server.cc, sagemaker_server.cc and vertex_ai_server.cc, `Handle`.
 */
import type { Logger } from "../../observe/log.ts";
import { describeCall } from "./describe-call.ts";
import type { ApiHandler } from "./transport/listener.ts";

export type AccessLogName = "HTTP" | "SageMaker" | "Vertex AI";

const LOCATIONS: Readonly<Record<AccessLogName, string>> = {
  HTTP: "http_server",
  SageMaker: "sagemaker_server",
  "Vertex AI": "vertex_ai_server",
};

export function withAccessLog(api: ApiHandler, log: Logger, name: AccessLogName = "HTTP"): ApiHandler {
  const location = LOCATIONS[name];
  return {
    handle(call) {
      log.verbose(1, location, () => `${name} request: ${describeCall(call)}`);
      return api.handle(call);
    },
  };
}
