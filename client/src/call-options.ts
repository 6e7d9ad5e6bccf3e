/**
 * Options that every call takes: its limit, cancellation, headers and retries. AbortSignal: WHATWG DOM
 * (https://dom.spec.whatwg.org/#interface-AbortSignal).
 */
import type { RetryOptions } from "./call-policy.ts";

export interface CallOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Limit of the whole call with its retries, including the last event of a stream. Default: that of the client. */
  readonly timeoutMs?: number | undefined;
  /** Header fields of this call alone; metadata in gRPC. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Query of the address, HTTP only. */
  readonly query?: Readonly<Record<string, string>> | undefined;
  /** Default: those of the client. */
  readonly retry?: RetryOptions | false | undefined;
}
