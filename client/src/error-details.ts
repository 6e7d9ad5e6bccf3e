/**
 * The facts of a failed call, which its error, its hint and its attempts share. Statuses: RFC 9110, section 15.
 */

export type ClientErrorKind =
  /** The server responded with an error, or sent one as an event. */
  | "server"
  /** No response: no connection, or it broke. */
  | "network"
  /** `timeoutMs` of the call expired. */
  | "timeout"
  /** The response violates the protocol. */
  | "protocol";

/** The facts of a failure; absent ones are unknown. */
export interface ErrorDetails {
  readonly status?: number | undefined;
  readonly grpcStatus?: number | undefined;
  readonly model?: string | undefined;
  readonly requestId?: string | undefined;
  readonly hint?: string | undefined;
  readonly isUnsent?: boolean | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly cause?: unknown;
}

/** The call that an error is about. */
export interface ErrorContext {
  readonly model?: string | undefined;
  readonly requestId?: string | undefined;
}
