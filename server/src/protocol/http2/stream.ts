/**
 * One HTTP/2 stream (RFC 9113, 5) as its user sees it: pieces of the request in; head, data and trailers out. The
 * connection decides when data may be sent.
 */

import { PieceList } from "../piece-list.ts";
import { HTTP2_ERROR } from "./codes.ts";
import type { RequestHead } from "./request-head.ts";

export interface StreamListener {
  /** The next piece of the request. A view that is the listener's to keep. */
  data(piece: Buffer): void;
  /** The request is complete. */
  end(): void;
  /** The stream is over. Called once, for every cause. */
  closed(): void;
}

/** Parts of the connection that a stream uses. */
export interface StreamTransport {
  head(stream: Http2Stream, fields: readonly string[], isConstant: boolean, ends: boolean): void;
  /** There is something to send, or to end. */
  pump(stream: Http2Stream): void;
  reset(stream: Http2Stream, code: number): void;
  /** The listener has taken that much. */
  consumed(stream: Http2Stream, numBytes: number): void;
}

export interface RespondOptions {
  /** The same list again and again. */
  readonly isConstant?: boolean;
  /** Nothing follows. */
  readonly ends?: boolean;
}

/** Unsent bytes past which a producer is asked to wait. */
const NEEDS_DRAIN_BYTES = 65_536;

export class Http2Stream {
  readonly id: number;
  readonly head: RequestHead;
  listener: StreamListener | undefined;
  /** The rest is the connection's. */
  sendWindow: number;
  receiveWindow: number;
  /** Bytes consumed since the last WINDOW_UPDATE. */
  unacknowledged = 0;
  receivedBytes = 0;
  /** The client has ended its side. */
  isInputOver = false;
  isOutputOver = false;
  /** Called when the last frame of the answer was written and the client has not ended its side. */
  onOutputOver: (() => void) | undefined;
  isClosed = false;
  hasHead = false;
  readonly queue: Uint8Array[] = [];
  /** Bytes sent of the first queued piece. */
  queueOffset = 0;
  queuedBytes = 0;
  /** Set when the queue is all there will be; empty: no trailers. */
  trailers: readonly string[] | undefined;
  hasConstantTrailers = false;
  /** By piece of the queue. */
  sentCallbacks: Map<Uint8Array, () => void> | undefined;
  /** Pieces of the request that came while the listener had paused. */
  readonly #held = new PieceList();
  #isPaused = false;
  #hasAnnouncedEnd = false;
  #onDrain: (() => void) | undefined;
  readonly #transport: StreamTransport;

  constructor(id: number, head: RequestHead, transport: StreamTransport, sendWindow: number, receiveWindow: number) {
    this.id = id;
    this.head = head;
    this.#transport = transport;
    this.sendWindow = sendWindow;
    this.receiveWindow = receiveWindow;
  }

  get needsDrain(): boolean {
    return this.queuedBytes > NEEDS_DRAIN_BYTES;
  }

  /** The head of the answer. */
  respond(fields: readonly string[], options: RespondOptions = {}): void {
    const { isConstant = false, ends = false } = options;
    if (this.isClosed || this.hasHead) return;
    this.hasHead = true;
    this.#transport.head(this, fields, isConstant, ends);
  }

  /** The bytes must stay as they are until they are sent; `onSent` is called when the system has taken them, if ever. */
  write(bytes: Uint8Array, onSent?: () => void): void {
    if (this.isClosed || this.trailers !== undefined || bytes.length === 0) return;
    this.queue.push(bytes);
    if (onSent !== undefined) {
      this.sentCallbacks ??= new Map();
      this.sentCallbacks.set(bytes, onSent);
    }
    this.queuedBytes += bytes.length;
  }

  /** Sends what was written, as far as the client lets. */
  send(): void {
    if (!this.isClosed) this.#transport.pump(this);
  }

  /** Ends the answer behind what was written. */
  end(trailers: readonly string[] = [], isConstant: boolean = false): void {
    if (this.isClosed || this.trailers !== undefined || this.isOutputOver) return;
    this.trailers = trailers;
    this.hasConstantTrailers = isConstant;
    this.#transport.pump(this);
  }

  /** Ends the stream both ways, at once. */
  reset(code: number): void {
    if (!this.isClosed) this.#transport.reset(this, code);
  }

  /** Calls back when what was written has gone, or never will. One at a time. */
  onDrain(callback: () => void): void {
    this.#onDrain = callback;
  }

  /** Holds the request back; the client may send what its window allows. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#release();
  }

  #release(): void {
    while (!this.#isPaused && this.#held.numBytes > 0) {
      this.#hand(this.#held.takeFirst());
    }
    if (!this.#isPaused && this.isInputOver && !this.#hasAnnouncedEnd) {
      this.#hasAnnouncedEnd = true;
      this.listener?.end();
    }
  }

  #hand(piece: Buffer): void {
    this.#transport.consumed(this, piece.length);
    this.listener?.data(piece);
  }

  /** By the connection: a piece has come. */
  receive(piece: Buffer, ends: boolean): void {
    if (ends) this.isInputOver = true;
    if (piece.length > 0) {
      if (this.#isPaused || this.#held.numBytes > 0) this.#held.push(piece);
      else this.#hand(piece);
    }
    if (ends) this.#release();
  }

  /** By the connection: the queue is short again. */
  drained(): void {
    const callback = this.#onDrain;
    this.#onDrain = undefined;
    callback?.();
  }

  /** By the connection, once. */
  close(): void {
    this.isClosed = true;
    this.#held.clear();
    this.queue.length = 0;
    this.queuedBytes = 0;
    this.drained();
    this.listener?.closed();
  }
}

/** A client that still sends is told to stop, once the answer is out. A turn later: the end is often under way already. */
export function stopInput(stream: Http2Stream): void {
  if (stream.isClosed || stream.isInputOver) return;
  setImmediate(() => {
    if (stream.isClosed || stream.isInputOver) return;
    if (stream.isOutputOver) stream.reset(HTTP2_ERROR.none);
    else stream.onOutputOver = () => stopInput(stream);
  });
}
