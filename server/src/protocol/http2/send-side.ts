/**
 * The sending side of a connection: heads, data as far as windows and socket allow, trailers (RFC 9113, 5.2 and 8.1).
 */
import {
  DEFAULT_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  FLAG,
  FRAME,
  HTTP2_ERROR,
  Http2Fault,
  MAX_WINDOW_BYTES,
} from "./codes.ts";
import type { FrameWriter } from "./frame-writer.ts";
import { HeaderEncoder } from "./header-encoder.ts";
import type { PeerSettings } from "./peer-settings.ts";
import type { Http2Stream } from "./stream.ts";

/** A socket that is behind by more gets no more data. */
const MAX_UNSENT_BYTES: number = 512 * 1024;
/** Largest DATA frame, even if the peer allows more: streams share the connection. */
const LARGEST_FRAME: number = 256 * 1024;

export class SendSide {
  readonly #writer: FrameWriter;
  readonly #encoder = new HeaderEncoder();
  readonly #onSent: (stream: Http2Stream) => void;
  #window: number = DEFAULT_WINDOW_BYTES;
  #frameBytes: number = DEFAULT_FRAME_BYTES;
  /** Heads and data; pings, settings and the like do not count. */
  numFrames = 0;
  /** Initial send window of new streams. */
  streamWindow: number = DEFAULT_WINDOW_BYTES;
  /** Streams whose data waits for the connection, not for their own window. */
  #starved = new Set<Http2Stream>();

  /** `onSent`: the last frame of a stream was written. */
  constructor(writer: FrameWriter, onSent: (stream: Http2Stream) => void) {
    this.#writer = writer;
    this.#onSent = onSent;
  }

  /** Data waits for the window of the connection. */
  get isUsedUp(): boolean {
    return this.#window <= 0 && this.#starved.size > 0;
  }

  head(stream: Http2Stream, fields: readonly string[], isConstant: boolean, ends: boolean): void {
    this.#headers(stream.id, this.#encoder.encode(fields, isConstant), ends);
    if (ends) this.#ended(stream);
  }

  #headers(id: number, block: Buffer, ends: boolean): void {
    this.numFrames += 1;
    const last = ends ? FLAG.endStream : 0;
    const limit = DEFAULT_FRAME_BYTES;
    if (block.length <= limit) {
      this.#writer.frame(FRAME.headers, FLAG.endHeaders | last, id, block);
      return;
    }
    this.#writer.frame(FRAME.headers, last, id, block.subarray(0, limit));
    for (let at = limit; at < block.length; at += limit) {
      const flags = at + limit >= block.length ? FLAG.endHeaders : 0;
      this.#writer.frame(FRAME.continuation, flags, id, block.subarray(at, at + limit));
    }
  }

  pump(stream: Http2Stream): void {
    while (stream.queuedBytes > 0) {
      if (stream.sendWindow <= 0) return;
      if (this.#window <= 0 || this.#writer.unsentBytes > MAX_UNSENT_BYTES) {
        this.#starved.add(stream);
        return;
      }
      const size = Math.min(stream.queuedBytes, stream.sendWindow, this.#window, this.#frameBytes);
      const ends = size === stream.queuedBytes && stream.trailers?.length === 0;
      this.#data(stream, size, ends);
    }
    stream.drained();
    if (stream.trailers === undefined || stream.isOutputOver || stream.isClosed) return;
    if (stream.trailers.length === 0) this.#writer.begin(0, FRAME.data, FLAG.endStream, stream.id);
    else this.#headers(stream.id, this.#encoder.encode(stream.trailers, stream.hasConstantTrailers), true);
    this.#ended(stream);
  }

  #data(stream: Http2Stream, size: number, ends: boolean): void {
    this.numFrames += 1;
    stream.sendWindow -= size;
    this.#window -= size;
    stream.queuedBytes -= size;
    this.#writer.begin(size, FRAME.data, ends ? FLAG.endStream : 0, stream.id);
    let left = size;
    let done = 0;
    while (left > 0) {
      const piece = stream.queue[done] as Uint8Array; // queuedBytes counts them
      const rest = piece.length - stream.queueOffset;
      if (rest > left) {
        this.#writer.piece(piece.subarray(stream.queueOffset, stream.queueOffset + left));
        stream.queueOffset += left;
        break;
      }
      this.#writer.piece(stream.queueOffset === 0 ? piece : piece.subarray(stream.queueOffset));
      stream.queueOffset = 0;
      left -= rest;
      done += 1;
      const onSent = stream.sentCallbacks?.get(piece);
      if (onSent !== undefined) this.#writer.whenWritten(onSent);
    }
    if (done === stream.queue.length) stream.queue.length = 0;
    else if (done > 0) stream.queue.splice(0, done);
    if (ends) this.#ended(stream);
  }

  #ended(stream: Http2Stream): void {
    stream.isOutputOver = true;
    this.#onSent(stream);
  }

  forget(stream: Http2Stream): void {
    this.#starved.delete(stream);
  }

  /** The socket or the window of the connection has room again. */
  resume(): void {
    const starved = this.#starved;
    if (starved.size === 0) return;
    this.#starved = new Set();
    for (const stream of starved) if (!stream.isClosed) this.pump(stream);
  }

  /** @throws Http2Fault when the window would be too large */
  widen(numBytes: number): void {
    this.#window += numBytes;
    if (this.#window > MAX_WINDOW_BYTES) throw new Http2Fault(HTTP2_ERROR.flowControl, "the window is too large");
    this.resume();
  }

  /** @throws Http2Fault when a window would be too large */
  apply(settings: PeerSettings, streams: Iterable<Http2Stream>): void {
    if (settings.headerTableSize !== undefined) this.#encoder.limitTable(settings.headerTableSize);
    if (settings.maxFrameSize !== undefined) this.#frameBytes = Math.min(settings.maxFrameSize, LARGEST_FRAME);
    if (settings.initialWindowSize === undefined) return;
    const change = settings.initialWindowSize - this.streamWindow;
    this.streamWindow = settings.initialWindowSize;
    for (const stream of [...streams]) {
      stream.sendWindow += change;
      if (stream.sendWindow > MAX_WINDOW_BYTES) throw new Http2Fault(HTTP2_ERROR.flowControl, "a window is too large");
      if (!stream.isClosed) this.pump(stream);
    }
  }
}
