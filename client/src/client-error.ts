/**
 * The one error class of the client, for every failure of a call. HTTP statuses: RFC 9110, section 15. gRPC statuses:
 * https://github.com/grpc/grpc/blob/master/doc/statuscodes.md
 */
import type { ClientErrorKind, ErrorContext, ErrorDetails } from "./error-details.ts";
import { hintFor } from "./error-hint.ts";

/** Statuses after which the same call may succeed later (RFC 9110, 15.6; RFC 6585, 4). */
const RETRYABLE_STATUS: ReadonlySet<number> = new Set([429, 502, 503, 504]);
const GRPC_UNAVAILABLE = 14;

export class ClientError extends Error {
  readonly kind: ClientErrorKind;
  /** HTTP status of the response, if there was one. */
  readonly status: number | undefined;
  /** gRPC status of the response, if there was one. */
  readonly grpcStatus: number | undefined;
  /** Model of the call, if it was for one. */
  readonly model: string | undefined;
  /** Id of the request, if it had one. */
  readonly requestId: string | undefined;
  /** A sentence on how to fix it, for failures with a usual reason. */
  readonly hint: string | undefined;
  /** The server cannot have seen the request, so that it is safe to send it again. */
  readonly isUnsent: boolean;
  /** The server asked to wait so long (Retry-After: RFC 9110, 10.2.3). */
  readonly retryAfterMs: number | undefined;

  constructor(kind: ClientErrorKind, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "ClientError";
    this.kind = kind;
    this.status = details.status;
    this.grpcStatus = details.grpcStatus;
    this.model = details.model;
    this.requestId = details.requestId;
    this.isUnsent = details.isUnsent ?? false;
    this.retryAfterMs = details.retryAfterMs;
    this.hint = details.hint ?? hintFor({ kind, message, ...details });
  }

  /** The same call may succeed later. After a broken connection the server may still have done the work. */
  get isRetryable(): boolean {
    if (this.kind === "network") return true;
    if (this.kind !== "server") return false;
    return RETRYABLE_STATUS.has(this.status ?? 0) || this.grpcStatus === GRPC_UNAVAILABLE;
  }
}

/** Names the call in an error that was made without knowing it. Other thrown values stay as they are. */
export function inContext(error: unknown, { model, requestId }: ErrorContext): unknown {
  if (!(error instanceof ClientError) || error.model !== undefined || model === undefined) return error;
  const { kind, message, status, grpcStatus, hint, isUnsent, retryAfterMs, cause } = error;
  const details = { status, grpcStatus, hint, isUnsent, retryAfterMs, cause, model, requestId };
  return new ClientError(kind, message, details);
}
