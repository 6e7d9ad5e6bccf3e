/**
 * The receiving side of a connection: granted flow-control windows and data for its streams (RFC 9113, 5.2 and 6.9).
 */
import { DEFAULT_WINDOW_BYTES, FRAME, HTTP2_ERROR, Http2Fault } from "./codes.ts";
import type { ConnectionLimits } from "./connection-listener.ts";
import { uint32 } from "./frame-rules.ts";
import type { FrameWriter } from "./frame-writer.ts";
import type { Http2Stream } from "./stream.ts";

const NOTHING: Buffer = Buffer.alloc(0);

/** State changes of a stream. */
export interface ReceivedStreams {
  reset(stream: Http2Stream, code: number): void;
  /** The request is complete. */
  inputOver(stream: Http2Stream): void;
}

export class ReceiveSide {
  readonly #writer: FrameWriter;
  readonly #limits: ConnectionLimits;
  readonly #streams: ReceivedStreams;
  #window: number;
  #unacknowledged = 0;

  constructor(writer: FrameWriter, limits: ConnectionLimits, streams: ReceivedStreams) {
    this.#writer = writer;
    this.#limits = limits;
    this.#streams = streams;
    this.#window = limits.connectionWindowBytes;
  }

  /** The window of the connection; those of streams are in the settings. */
  announce(): void {
    this.#widen(0, this.#limits.connectionWindowBytes - DEFAULT_WINDOW_BYTES);
  }

  #widen(id: number, numBytes: number): void {
    this.#writer.frame(FRAME.windowUpdate, 0, id, uint32(numBytes));
  }

  /**
   * The window of the connection is given back at once, even if a stream's reader is slow: the windows of the streams
   * bound the data. @throws Http2Fault
   */
  take(numBytes: number): void {
    this.#window -= numBytes;
    if (this.#window < 0) throw new Http2Fault(HTTP2_ERROR.flowControl, "more data than the connection's window");
    this.#unacknowledged += numBytes;
    if (this.#unacknowledged * 2 < this.#limits.connectionWindowBytes) return;
    this.#widen(0, this.#unacknowledged);
    this.#window += this.#unacknowledged;
    this.#unacknowledged = 0;
  }

  /** A frame of data begins. */
  dataStart(stream: Http2Stream, length: number, padding: number): void {
    if (stream.isInputOver) {
      this.#streams.reset(stream, HTTP2_ERROR.streamClosed);
      return;
    }
    stream.receiveWindow -= length;
    if (stream.receiveWindow < 0) this.#streams.reset(stream, HTTP2_ERROR.flowControl);
    else if (padding > 0) this.consumed(stream, padding);
  }

  data(stream: Http2Stream, piece: Buffer, ends: boolean): void {
    if (stream.isInputOver) return;
    stream.receivedBytes += piece.length;
    const { contentLength } = stream.head;
    if (contentLength !== undefined && stream.receivedBytes > contentLength) {
      this.#streams.reset(stream, HTTP2_ERROR.protocol);
    } else if (ends) this.ended(stream, piece);
    else stream.receive(piece, false);
  }

  ended(stream: Http2Stream, lastPiece: Buffer = NOTHING): void {
    const { contentLength } = stream.head;
    if (contentLength !== undefined && stream.receivedBytes !== contentLength) {
      this.#streams.reset(stream, HTTP2_ERROR.protocol);
      return;
    }
    stream.receive(lastPiece, true);
    this.#streams.inputOver(stream);
  }

  consumed(stream: Http2Stream, numBytes: number): void {
    stream.unacknowledged += numBytes;
    if (stream.isInputOver || stream.isClosed || stream.unacknowledged * 2 < this.#limits.streamWindowBytes) return;
    this.#widen(stream.id, stream.unacknowledged);
    stream.receiveWindow += stream.unacknowledged;
    stream.unacknowledged = 0;
  }
}
