/** The one error class of the client, for every failure of a call. HTTP statuses: RFC 9110, section 15. */

export type ClientErrorKind =
  /** The server responded with an error, or sent one as an event. */
  | "server"
  /** No response: no connection, or it broke. */
  | "network"
  /** `timeoutMs` of the call expired. */
  | "timeout"
  /** The response violates the protocol. */
  | "protocol";

/** Statuses after which the same call may succeed later (RFC 9110, 15.6; RFC 6585, 4). */
const RETRYABLE_STATUS: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export class ClientError extends Error {
  readonly kind: ClientErrorKind;
  /** HTTP status of the response, if there was one. */
  readonly status: number | undefined;

  constructor(kind: ClientErrorKind, message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.name = "ClientError";
    this.kind = kind;
    this.status = status;
  }

  /** The same call may succeed later. After a broken connection the server may still have done the work. */
  get isRetryable(): boolean {
    return this.kind === "network" || (this.kind === "server" && RETRYABLE_STATUS.has(this.status ?? 0));
  }
}
