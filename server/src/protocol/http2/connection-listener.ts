/** Options and events of a connection (RFC 9113). */
import type { Http2Fault } from "./codes.ts";
import type { Http2Stream } from "./stream.ts";

export interface ConnectionLimits {
  readonly maxStreams: number;
  readonly maxHeaderListBytes: number;
  /** What a client may send ahead on one stream, and on all together. */
  readonly streamWindowBytes: number;
  readonly connectionWindowBytes: number;
}

export interface ConnectionListener {
  /** A request. Whoever takes it sets the stream's listener at once. */
  stream(stream: Http2Stream): void;
  pinged(): void;
  /** The client opens no more streams. */
  goneAway(): void;
  /** The socket is closed. `fault`: what the client did wrong, if that was why. */
  closed(fault: Http2Fault | undefined): void;
}
