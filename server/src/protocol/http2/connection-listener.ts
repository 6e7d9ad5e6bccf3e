/** Options and events of a connection (RFC 9113). */
import type { Http2Fault } from "./codes.ts";
import type { Http2Stream } from "./stream.ts";

export interface ConnectionLimits {
  readonly maxStreams: number;
  readonly maxHeaderListBytes: number;
  /** Initial receive windows of one stream, and of the connection. */
  readonly streamWindowBytes: number;
  readonly connectionWindowBytes: number;
}

export interface ConnectionListener {
  /** A request. The receiver sets the stream's listener at once. */
  stream(stream: Http2Stream): void;
  pinged(): void;
  /** The client opens no more streams. */
  goneAway(): void;
  /** The socket is closed. `fault`: what the client did wrong, if that was why. */
  closed(fault: Http2Fault | undefined): void;
}
