/**
 * The server's side of one HTTP/2 connection over a socket, TLS or not (RFC 9113): frames in, streams out, windows,
 * settings, pings and the end. It reads the socket to its end in every state, so that a leaving client is always
 * noticed. Knows no gRPC.
 */
import type { Socket } from "node:net";
import type { Activity } from "../peer-connections.ts";
import { FLAG, FRAME, HTTP2_ERROR, Http2Fault, MAX_WINDOW_BYTES, SETTING } from "./codes.ts";
import type { ConnectionLimits, ConnectionListener } from "./connection-listener.ts";
import { FloodGuard } from "./flood-guard.ts";
import { FrameParser, type FrameReceiver } from "./frame-parser.ts";
import { enhanceYourCalmFault, expectFrame, protocolFault, uint32 } from "./frame-rules.ts";
import { FrameWriter } from "./frame-writer.ts";
import { GoAway } from "./goaway.ts";
import { type FrameProgress, HalfFrameWatch } from "./half-frame-watch.ts";
import { HeaderBlocks } from "./header-blocks.ts";
import { MAX_FRAME_BYTES, MAX_UNREAD_BYTES } from "./limits.ts";
import { readSettings, settingsPayload } from "./peer-settings.ts";
import { Pings } from "./pings.ts";
import { type ReceivedStreams, ReceiveSide } from "./receive-side.ts";
import { RecentIds } from "./recent-ids.ts";
import { areGoodTrailers } from "./request-head.ts";
import { SendSide } from "./send-side.ts";
import { Http2Stream, type StreamTransport } from "./stream.ts";

/** A connection on which nothing has been said for this long is no connection. */
const HANDSHAKE_MS = 60_000;
/** Codes of resets that the client did not cause. */
const OWN_RESETS: ReadonlySet<number> = new Set([HTTP2_ERROR.none, HTTP2_ERROR.internal, HTTP2_ERROR.cancel]);
const NOTHING: Buffer = Buffer.alloc(0);

export class Http2Connection implements FrameReceiver, StreamTransport, ReceivedStreams, FrameProgress {
  readonly #socket: Socket;
  readonly #listener: ConnectionListener;
  readonly #limits: ConnectionLimits;
  readonly #parser: FrameParser = new FrameParser(this);
  readonly #writer: FrameWriter;
  readonly #send: SendSide;
  readonly #input: ReceiveSide;
  readonly #goAway: GoAway;
  readonly #pings: Pings;
  readonly #blocks: HeaderBlocks;
  readonly #guard = new FloodGuard();
  readonly #streams = new Map<number, Http2Stream>();
  /** Streams that this side reset or refused, whose frames may still arrive (RFC 9113, 5.1). */
  readonly #resetIds = new RecentIds();
  #lastId = 0;
  #hasSettings = false;
  #fault: Http2Fault | undefined;
  readonly #handshakeTimer: NodeJS.Timeout;
  readonly #halfFrames: HalfFrameWatch;

  constructor(socket: Socket, limits: ConnectionLimits, listener: ConnectionListener) {
    this.#socket = socket;
    this.#limits = limits;
    this.#listener = listener;
    this.#writer = new FrameWriter(socket);
    this.#send = new SendSide(this.#writer, (stream) => this.#finish(stream));
    this.#blocks = new HeaderBlocks(limits.maxHeaderListBytes);
    this.#input = new ReceiveSide(this.#writer, limits, this);
    this.#goAway = new GoAway(socket, this.#writer);
    this.#pings = new Pings(this.#writer);
    this.#halfFrames = new HalfFrameWatch(this, () => this.destroy());
    this.#handshakeTimer = setTimeout(() => this.destroy(), HANDSHAKE_MS).unref();
  }

  get isHalf(): boolean {
    return this.#parser.isHalf || this.#blocks.isOpen;
  }

  /** The frames of one field block count as one. */
  get numFrames(): number {
    return this.#blocks.isOpen ? -1 : this.#parser.numFrames;
  }

  /** Heads and data that were sent so far. */
  get numSentFrames(): number {
    return this.#send.numFrames;
  }

  get streamCount(): number {
    return this.#streams.size;
  }

  /** A stream is worked on when its request has come whole, or when its answer has begun. */
  get activity(): Activity {
    if (this.#streams.size === 0) return this.#send.numFrames === 0 ? "waiting" : "idle";
    for (const { isInputOver, hasHead } of this.#streams.values()) if (isInputOver || hasHead) return "busy";
    return "waiting";
  }

  start(): void {
    const socket = this.#socket;
    socket.setNoDelay(true);
    socket.setTimeout(0);
    this.#announce();
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("drain", () => this.#send.resume());
    // A half-closed peer can send no WINDOW_UPDATE or RST_STREAM (RFC 9113, 6.4 and 6.9), so it is treated as gone.
    for (const event of ["end", "error"]) socket.on(event, () => this.destroy());
    socket.on("close", () => this.#closed());
  }

  #announce(): void {
    const { maxStreams, streamWindowBytes, maxHeaderListBytes } = this.#limits;
    const settings = settingsPayload([
      [SETTING.maxConcurrentStreams, maxStreams],
      [SETTING.initialWindowSize, streamWindowBytes],
      [SETTING.maxFrameSize, MAX_FRAME_BYTES],
      [SETTING.maxHeaderListSize, maxHeaderListBytes],
    ]);
    this.#writer.frame(FRAME.settings, 0, 0, settings);
    this.#input.announce();
  }

  #receive(chunk: Buffer): void {
    try {
      this.#parser.push(chunk);
      this.#halfFrames.look();
    } catch (error) {
      if (!(error instanceof Http2Fault)) throw error;
      this.#fail(error);
    }
  }

  /** Tells the client what it did wrong and ends the connection. */
  #fail(fault: Http2Fault): void {
    if (this.#fault !== undefined) return;
    this.#fault = fault;
    this.#parser.stop();
    this.#goAway.goAway(this.#lastId, fault.code, fault.message);
    this.#closeStreams();
    this.#goAway.end();
  }

  /** Asks the client to open no more streams; those that are open end first. Nothing that is under way gets lost. */
  leave(): void {
    if (!this.#goAway.ask()) return;
    this.ping(() => {
      this.#goAway.agree(this.#lastId);
      this.#endIfLeft();
    });
  }

  /** Refuses to go on, for a reason. */
  expel(code: number, message: string): void {
    this.#fail(new Http2Fault(code, message));
  }

  /** Sends what is to be sent and ends, with whatever is open. */
  close(): void {
    this.#goAway.goAway(this.#lastId, HTTP2_ERROR.none, "");
    this.#closeStreams();
    this.#goAway.end();
  }

  /** At once. */
  destroy(): void {
    this.#writer.flush();
    this.#closeStreams();
    this.#socket.destroy();
  }

  #endIfLeft(): void {
    if (this.#goAway.isAgreed && this.#streams.size === 0) this.#goAway.end();
  }

  #closed(): void {
    clearTimeout(this.#handshakeTimer);
    this.#halfFrames.stop();
    this.#closeStreams();
    this.#listener.closed(this.#fault);
  }

  #closeStreams(): void {
    for (const stream of [...this.#streams.values()]) this.#forget(stream);
  }

  /** The callback is not called when the connection ends first. False: too late. */
  ping(callback: () => void): boolean {
    if (this.#goAway.isEnding || this.#socket.destroyed) return false;
    this.#pings.send(callback);
    return true;
  }

  frame(type: number, flags: number, streamId: number, payload: Buffer): void {
    if (!this.#hasSettings && type !== FRAME.settings) throw protocolFault("the first frame is none of settings");
    if (this.#blocks.isOpen && type !== FRAME.continuation) throw protocolFault("a header block is interrupted");
    expectFrame(type, flags, streamId, payload.length);
    switch (type) {
      case FRAME.headers:
        if (streamId % 2 === 0) throw protocolFault(`a client cannot open stream ${streamId}`);
        if (this.#blocks.begin(streamId, flags, payload)) this.#headers();
        break;
      case FRAME.continuation:
        if (this.#blocks.add(streamId, flags, payload)) this.#headers();
        break;
      case FRAME.priority:
        this.#priority(streamId, payload);
        break;
      case FRAME.reset:
        this.#reset(streamId);
        break;
      case FRAME.settings:
        this.#settings(flags, payload);
        break;
      case FRAME.ping:
        this.#ping(flags, payload);
        break;
      case FRAME.goAway:
        this.#listener.goneAway();
        break;
      case FRAME.windowUpdate:
        this.#windowUpdate(streamId, payload);
        break;
    }
  }

  #headers(): void {
    const { streamId, ends, dependsOnItself, list } = this.#blocks.finish();
    const open = this.#streams.get(streamId);
    if (open !== undefined) {
      this.#trailers(open, ends, list.fields);
      return;
    }
    if (streamId <= this.#lastId) {
      if (this.#resetIds.has(streamId)) return;
      throw new Http2Fault(HTTP2_ERROR.streamClosed, `headers on stream ${streamId}, which is closed`);
    }
    this.#lastId = streamId;
    this.#expectReader();
    if (!this.#goAway.takes(streamId)) {
      this.#resetIds.add(streamId);
      return;
    }
    const refusal = this.#refusal(list.size, dependsOnItself);
    const head = refusal === undefined ? this.#blocks.requestHead(list) : undefined;
    if (head === undefined) {
      this.#resetId(streamId, refusal ?? HTTP2_ERROR.protocol);
      return;
    }
    const stream = new Http2Stream(streamId, head, this, this.#send.streamWindow, this.#limits.streamWindowBytes);
    this.#streams.set(streamId, stream);
    this.#listener.stream(stream);
    if (ends) this.#input.ended(stream);
  }

  #refusal(listBytes: number, dependsOnItself: boolean): number | undefined {
    if (dependsOnItself) return HTTP2_ERROR.protocol;
    if (listBytes > this.#limits.maxHeaderListBytes) return HTTP2_ERROR.enhanceYourCalm;
    return this.#streams.size >= this.#limits.maxStreams ? HTTP2_ERROR.refusedStream : undefined;
  }

  #trailers(stream: Http2Stream, ends: boolean, fields: readonly string[]): void {
    if (stream.isInputOver) this.reset(stream, HTTP2_ERROR.streamClosed);
    else if (!ends || !areGoodTrailers(fields)) this.reset(stream, HTTP2_ERROR.protocol);
    else this.#input.ended(stream);
  }

  dataStart(streamId: number, length: number, padding: number, ends: boolean): void {
    if (!this.#hasSettings || this.#blocks.isOpen) throw protocolFault("data where none belongs");
    if (streamId === 0 || streamId > this.#lastId) throw protocolFault(`data on stream ${streamId}, which is idle`);
    if (length > padding) this.#guard.content();
    // The end of a request without a body is no flood: each has a stream of its own.
    else if (!ends && this.#guard.empty()) throw enhanceYourCalmFault("too many empty frames");
    this.#input.take(length);
    const stream = this.#streams.get(streamId);
    if (stream === undefined) {
      if (this.#resetIds.has(streamId)) return;
      throw new Http2Fault(HTTP2_ERROR.streamClosed, `data on stream ${streamId}, which is closed`);
    }
    this.#input.dataStart(stream, length, padding);
  }

  data(streamId: number, piece: Buffer, ends: boolean): void {
    const stream = this.#streams.get(streamId);
    if (stream !== undefined) this.#input.data(stream, piece, ends);
  }

  inputOver(stream: Http2Stream): void {
    if (stream.isOutputOver && !stream.isClosed) this.#forget(stream);
  }

  consumed(stream: Http2Stream, numBytes: number): void {
    this.#input.consumed(stream, numBytes);
  }

  #priority(streamId: number, payload: Buffer): void {
    if (payload.length !== 5) this.#resetId(streamId, HTTP2_ERROR.frameSize);
    else if ((payload.readUInt32BE(0) & MAX_WINDOW_BYTES) === streamId) this.#resetId(streamId, HTTP2_ERROR.protocol);
  }

  #reset(streamId: number): void {
    if (streamId > this.#lastId) throw protocolFault(`reset of stream ${streamId}, which is idle`);
    const stream = this.#streams.get(streamId);
    // A client that reset the stream itself sends nothing more on it, whichever side was first.
    this.#resetIds.delete(streamId);
    if (stream === undefined) return;
    this.#forget(stream);
    if (this.#guard.reset(performance.now())) throw enhanceYourCalmFault("too many streams are reset");
  }

  #settings(flags: number, payload: Buffer): void {
    if ((flags & FLAG.ack) !== 0) return;
    if (!this.#hasSettings) clearTimeout(this.#handshakeTimer);
    this.#hasSettings = true;
    const settings = readSettings(payload);
    // First, so that a client that waits for it sees it in front of what the new windows let through.
    this.#answer(FRAME.settings, NOTHING);
    this.#send.apply(settings, this.#streams.values());
  }

  #ping(flags: number, payload: Buffer): void {
    if ((flags & FLAG.ack) === 0) {
      this.#answer(FRAME.ping, payload);
      this.#listener.pinged();
      return;
    }
    this.#pings.answered(payload);
  }

  #answer(type: number, payload: Buffer): void {
    if (this.#guard.control(performance.now())) throw enhanceYourCalmFault("too many settings and pings");
    this.#expectReader();
    this.#writer.frame(type, FLAG.ack, 0, payload);
  }

  #windowUpdate(streamId: number, payload: Buffer): void {
    const increment = payload.readUInt32BE(0) & MAX_WINDOW_BYTES;
    if (streamId === 0) {
      if (increment === 0) throw protocolFault("a window grows by nothing");
      if (this.#send.isUsedUp) this.#expectStep(increment);
      this.#send.widen(increment);
      return;
    }
    if (streamId > this.#lastId) throw protocolFault(`a window of stream ${streamId}, which is idle`);
    const stream = this.#streams.get(streamId);
    if (stream === undefined) return;
    if (stream.sendWindow <= 0 && stream.queuedBytes > 0) this.#expectStep(increment);
    stream.sendWindow += increment;
    if (increment === 0) this.reset(stream, HTTP2_ERROR.protocol);
    else if (stream.sendWindow > MAX_WINDOW_BYTES) this.reset(stream, HTTP2_ERROR.flowControl);
    else this.#send.pump(stream);
  }

  #expectStep(increment: number): void {
    if (this.#guard.window(increment)) throw enhanceYourCalmFault("windows grow by too little");
  }

  head(stream: Http2Stream, fields: readonly string[], isConstant: boolean, ends: boolean): void {
    this.#send.head(stream, fields, isConstant, ends);
  }

  pump(stream: Http2Stream): void {
    this.#send.pump(stream);
  }

  reset(stream: Http2Stream, code: number): void {
    this.#resetId(stream.id, code);
    this.#forget(stream);
  }

  #resetId(streamId: number, code: number): void {
    this.#resetIds.add(streamId);
    this.#writer.frame(FRAME.reset, 0, streamId, uint32(code));
    if (OWN_RESETS.has(code)) return;
    if (this.#guard.reset(performance.now())) throw enhanceYourCalmFault("too many streams must be reset");
  }

  /** A client that does not read may not make this side queue more. */
  #expectReader(): void {
    if (this.#writer.unsentBytes > MAX_UNREAD_BYTES) throw enhanceYourCalmFault("the client does not read");
  }

  /** The last frame to the client was written. */
  #finish(stream: Http2Stream): void {
    if (stream.isClosed) return;
    if (stream.isInputOver) this.#forget(stream);
    else stream.onOutputOver?.();
  }

  #forget(stream: Http2Stream): void {
    if (!this.#streams.delete(stream.id)) return;
    this.#send.forget(stream);
    stream.close();
    this.#endIfLeft();
  }
}
