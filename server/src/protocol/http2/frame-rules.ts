/**
 * Rules for a single frame independent of state: its length, and whether it belongs to a stream (RFC 9113, 4.2 and 6).
 * Also the errors of violations (5.4).
 */
import { FLAG, FRAME, HTTP2_ERROR, Http2Fault } from "./codes.ts";

/** Frames that are about the connection. */
const OF_CONNECTION: ReadonlySet<number> = new Set([FRAME.settings, FRAME.ping, FRAME.goAway]);
/** Frames that are about one stream. */
const OF_STREAM: ReadonlySet<number> = new Set([FRAME.headers, FRAME.priority, FRAME.reset, FRAME.continuation]);
const LENGTHS: ReadonlyMap<number, number> = new Map([
  [FRAME.reset, 4],
  [FRAME.ping, 8],
  [FRAME.windowUpdate, 4],
]);
const GO_AWAY_BYTES = 8;

/** @throws Http2Fault */
export function expectFrame(type: number, flags: number, streamId: number, length: number): void {
  if (type === FRAME.pushPromise) throw protocolFault("a client cannot push");
  if (OF_CONNECTION.has(type) && streamId !== 0) throw protocolFault(`a frame of type ${type} on a stream`);
  if (OF_STREAM.has(type) && streamId === 0) throw protocolFault(`a frame of type ${type} on no stream`);
  const expected = LENGTHS.get(type);
  const isAck = type === FRAME.settings && (flags & FLAG.ack) !== 0;
  const isWrong =
    (expected !== undefined && length !== expected) ||
    (type === FRAME.goAway && length < GO_AWAY_BYTES) ||
    (isAck && length > 0);
  if (isWrong) throw new Http2Fault(HTTP2_ERROR.frameSize, `a frame of type ${type} has ${length} bytes`);
}

export function protocolFault(message: string): Http2Fault {
  return new Http2Fault(HTTP2_ERROR.protocol, message);
}

/** For clients that are too much. */
export function enhanceYourCalmFault(message: string): Http2Fault {
  return new Http2Fault(HTTP2_ERROR.enhanceYourCalm, message);
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
