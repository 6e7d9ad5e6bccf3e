/** The one error class of the client, for every failure of a call. HTTP statuses: RFC 9110, section 15. */

export type ClientErrorKind =
  /** The server answered with an error, or sent one as an event. */
  | "server"
  /** No answer came: no connection, or it broke. */
  | "network"
  /** `timeoutMs` of the call passed. */
  | "timeout"
  /** The answer is not what the protocol says. */
  | "protocol";

/** What proxies and servers answer when the same call may do later. */
const RETRYABLE_STATUS: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export class ClientError extends Error {
  readonly kind: ClientErrorKind;
  /** HTTP status of the answer, if there was one. */
  readonly status: number | undefined;

  constructor(kind: ClientErrorKind, message: string, status?: number, options?: ErrorOptions) {
    super(message, options);
    this.name = "ClientError";
    this.kind = kind;
    this.status = status;
  }

  /** The same call may succeed later. After a broken connection the server may have done the work nevertheless. */
  get isRetryable(): boolean {
    return this.kind === "network" || (this.kind === "server" && RETRYABLE_STATUS.has(this.status ?? 0));
  }
}
