/** Refusals in front of the protocol as JSON-RPC errors. Sources: JSON-RPC 2.0, 5.1; Model Context Protocol, "Transports". */
import { ServerError } from "../../core/server-error.ts";
import { ApiError } from "../api/api-error.ts";

const PARSE_ERROR = -32_700;
/** The first of those that servers define; the SDKs use it for refusals by HTTP status. */
const REFUSED = -32_000;

const STATUS: Partial<Record<ServerError["code"], number>> = {
  unavailable: 503,
  cancelled: 499,
  invalid_argument: 400,
  internal: 500,
};

export function mcpError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const { code, message } = ServerError.from(thrown);
  const status = STATUS[code] ?? 500;
  return new ApiError({ status, type: "server_error", code: null, param: null, message });
}

export function mcpErrorBody({ status, message }: ApiError): unknown {
  return { jsonrpc: "2.0", error: { code: status === 400 ? PARSE_ERROR : REFUSED, message }, id: null };
}
