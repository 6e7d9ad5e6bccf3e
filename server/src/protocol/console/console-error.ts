/** Errors of `/console/api/`: the status and the body of KServe V2. Source: KServe V2, HTTP/REST, error object. */
import { ServerError } from "../../core/server-error.ts";
import { ApiError } from "../api/api-error.ts";
import { statusOf } from "../http/status.ts";

export function consoleError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const { code, message } = ServerError.from(thrown);
  return new ApiError({ status: statusOf(code), type: "server_error", code: null, param: null, message });
}

export function consoleErrorBody({ message }: ApiError): unknown {
  return { error: message };
}
