/** The numbers of HTTP/2: frame types and flags (RFC 9113, 6), settings (6.5.2) and error codes (7). */

export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const;

export const FLAG = { ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

export const SETTING = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const;

export const HTTP2_ERROR = {
  none: 0,
  protocol: 1,
  internal: 2,
  flowControl: 3,
  streamClosed: 5,
  frameSize: 6,
  refusedStream: 7,
  cancel: 8,
  compression: 9,
  enhanceYourCalm: 11,
} as const;

export const FRAME_HEADER_BYTES = 9;
export const DEFAULT_WINDOW_BYTES = 65_535;
export const DEFAULT_FRAME_BYTES = 16_384;
export const MAX_WINDOW_BYTES: number = 2 ** 31 - 1;
export const PREFACE: Buffer = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** A fault of the peer that ends the connection. */
export class Http2Fault extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.name = "Http2Fault";
    this.code = code;
  }
}
