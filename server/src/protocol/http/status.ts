/**
 * The one table from error codes to HTTP status (RFC 9110, 15), and the body of every error (KServe V2, HTTP/REST,
 * "Inference Response JSON Error Object").
 */
import type { ErrorCode } from "../../core/server-error.ts";

const STATUS: Readonly<Record<ErrorCode, number>> = {
  unknown: 400,
  internal: 500,
  not_found: 404,
  invalid_argument: 400,
  unavailable: 503,
  unsupported: 501,
  already_exists: 400,
  cancelled: 400,
};

export function statusOf(code: ErrorCode): number {
  return STATUS[code];
}

/** Bytes that are not valid in JSON strings as they are (a lone surrogate) come out as U+FFFD. */
export function errorBody(message: string): Buffer {
  return Buffer.from(`{"error":${JSON.stringify(message)}}`);
}
