/**
 * A line for each request over HTTP at verbose level 1, in Triton's words: the method is its number in libevhtp's list.
 * Source: triton-inference-server/server, http_server.cc, sagemaker_server.cc and vertex_ai_server.cc, `Handle`.
 */
import type { Logger } from "../../observe/log.ts";
import type { HttpCall } from "./http-call.ts";
import type { ApiHandler } from "./transport/listener.ts";

const METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "OPTIONS"];

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

/** `path` as sent, so the log escapes it. */
export function describeCall({ method, path }: Pick<HttpCall, "method" | "path">): string {
  return `${METHODS.indexOf(method)} ${path}`;
}
