/**
 * One request as handlers see it (RFC 9110, 3.4): Node's HTTP behind a small interface, so that handlers run without a
 * socket.
 */
import type { Cancellation } from "../../core/cancellation.ts";
import type { RequestTrace, TraceHeaders } from "../../core/request-trace.ts";
import type { CallAccess } from "../call-access.ts";
import type { ContentType } from "./http-reply.ts";

export interface HttpBody {
  readonly bytes: Buffer;
  /** Bytes that came; more than `bytes` holds when the limit was passed. */
  readonly size: number;
}

export type Reserve = (numBytes: number) => Uint8Array | undefined;
export type AtEnd = (release: () => void) => void;

/** Tells work whether its request was cancelled, and when the request ends. */
export type CallLifetime = Pick<HttpCall, "isCancelled" | "atEnd">;

export interface HttpCall extends TraceHeaders {
  readonly method: string;
  /** Path as sent: not decoded, without the query. */
  readonly path: string;
  /** Behind the first `?`, as sent; "" without one. */
  readonly query: string;
  /** Names and values in turn, as sent. */
  readonly rawHeaders: readonly string[];
  /** `performance.now()` when the head was there. */
  readonly arrivalMs: number;
  /** Content type of an error raised now. Handlers move it on as the request proceeds. */
  errorType: ContentType;
  /** Set by the handler that samples the request; the front end ends it with the answer. */
  trace: RequestTrace | undefined;
  /** Set when the body of an inference was read: the id that the client gave, for the log. */
  inferenceId?: string;
  /** Set by the front end where calls need an API key. */
  access?: CallAccess | undefined;
  /** Aborted when the client is gone. Made when first asked for. */
  readonly signal: AbortSignal;
  /** Whether `signal` is aborted; does not make it. */
  readonly isCancelled: boolean;
  /** The same as `signal`, at less cost; absent: there is the signal alone. */
  readonly cancellation?: Cancellation | undefined;
  /** By lower-case name. */
  header(name: string): string | undefined;
  /**
   * Reads the body to its end, keeping at most `maxBytes`. `reserve` gives the memory for a large one, or none; without it the
   * body has memory of its own. @throws ServerError unavailable when the server holds too much
   */
  body(maxBytes: number, reserve?: Reserve): Promise<HttpBody>;
  /** The body piece by piece, instead of `body`; unread pieces hold the client back. @throws ClientGone while it is read */
  stream(): AsyncIterable<Uint8Array>;
  /**
   * Calls back once the connection has taken the answer or is gone; at once if that has happened already. Absent when
   * unknown: then no part of the request may lie in reusable memory.
   */
  readonly atEnd?: AtEnd | undefined;
  /** Counts bytes that the request holds until it is answered. @throws ServerError unavailable when it is too much */
  hold(numBytes: number): void;
  /** A part of these bytes is gone earlier. */
  giveBack(numBytes: number): void;
}
