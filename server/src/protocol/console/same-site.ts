/**
 * Keeps pages of other sites away from the console's routes. A browser sends its page's origin with each request that
 * changes something. A name that leads to this machine by DNS rebinding is in the `Host` header.
 * Sources: Fetch Standard, "`Origin` header"; RFC 9110, 7.2.
 */
import { isLoopback } from "../../config/flags/loopback.ts";
import type { TraceHeaders } from "../../core/request-trace.ts";
import { ApiError } from "../api/api-error.ts";

/** `isLocal`: the listener is on loopback, so that its own names are the only ones. @throws ApiError 403 */
export function expectSameSite(call: TraceHeaders, isLocal: boolean): void {
  const host = call.header("host") ?? "";
  if (isLocal && !isLoopback(hostnameOf(`http://${host}`))) {
    throw forbidden(`The console answers at names of this machine alone, as localhost; the request names '${host}'`);
  }
  const origin = call.header("origin");
  if (origin === undefined || hostOf(origin) === host.toLowerCase()) return;
  throw forbidden(`The console answers its own page alone; the request comes from '${origin}'`);
}

function hostOf(url: string): string | undefined {
  return URL.parse(url)?.host;
}

function hostnameOf(url: string): string {
  return URL.parse(url)?.hostname ?? "";
}

function forbidden(message: string): ApiError {
  return new ApiError({ status: 403, type: "permission_error", code: "forbidden", param: null, message });
}
