/**
 * Whether a collector took an export, and whether to send it again. Sources: OTLP specification, "OTLP/gRPC Response" and
 * "OTLP/HTTP Response"; gRPC over HTTP/2, "HTTP2 Status Mapping"; RFC 9110, 10.2.3 (Retry-After). Pure.
 */
import type { PartialSuccess, RpcStatus } from "./otlp-message.ts";

export type OtlpOutcome =
  | ({ readonly kind: "taken" } & PartialSuccess)
  | { readonly kind: "refused"; readonly fault: string }
  /** Worth another try; `retryAfterMs` is what the collector asks for. */
  | { readonly kind: "busy"; readonly fault: string; readonly retryAfterMs?: number | undefined };

const RETRYABLE_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export interface HttpAnswer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** From the body; "" = none. */
  readonly message: string;
}

export function httpFailure({ status, retryAfter, message }: HttpAnswer, nowMs: number): OtlpOutcome {
  const fault = `answered ${status}${message === "" ? "" : `: ${message}`}`;
  if (!RETRYABLE_STATUSES.has(status)) return { kind: "refused", fault };
  return { kind: "busy", fault, retryAfterMs: retryAfterMs(retryAfter, nowMs) };
}

/** Seconds or a date. */
function retryAfterMs(value: string | undefined, nowMs: number): number | undefined {
  if (value === undefined || value === "") return undefined;
  if (/^\d+$/.test(value)) return 1000 * Number(value);
  const atMs = Date.parse(value);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
}

const RESOURCE_EXHAUSTED = 8;
/** CANCELLED, DEADLINE_EXCEEDED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS. */
const RETRYABLE_CODES: ReadonlySet<number> = new Set([1, 4, 10, 11, 14, 15]);

/** RESOURCE_EXHAUSTED is worth another try only where the collector says when. */
export function grpcFailure(code: number, { message, retryDelayMs }: RpcStatus): OtlpOutcome {
  const fault = `answered with code ${code}${message === "" ? "" : `: ${message}`}`;
  const isRetryable = RETRYABLE_CODES.has(code) || (code === RESOURCE_EXHAUSTED && retryDelayMs !== undefined);
  return isRetryable ? { kind: "busy", fault, retryAfterMs: retryDelayMs } : { kind: "refused", fault };
}

const CODE_OF_STATUS: Readonly<Record<number, number>> = {
  400: 13,
  401: 16,
  403: 7,
  404: 12,
  429: 14,
  502: 14,
  503: 14,
  504: 14,
};
const UNKNOWN = 2;

/** An answer without a code comes from a proxy in between. */
export function codeOfHttpStatus(status: number): number {
  return CODE_OF_STATUS[status] ?? UNKNOWN;
}
