/**
 * A request as lines of the log name it: Triton gives the method's number in libevhtp's list.
 * Source: triton-inference-server/server, http_server.cc; libevhtp, evhtp/parser.h, `htp_method`.
 */
import type { HttpCall } from "./http-call.ts";

const METHODS: readonly string[] = ["GET", "HEAD", "POST", "PUT", "DELETE", "MKCOL", "COPY", "MOVE", "OPTIONS"];

/** `path` as sent, so the log escapes it. */
export function describeCall({ method, path }: Pick<HttpCall, "method" | "path">): string {
  return `${METHODS.indexOf(method)} ${path}`;
}
