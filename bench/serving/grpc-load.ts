/**
 * Load for gRPC over plain sockets with prebuilt HTTP/2 frames: unary calls one after another, or messages back and forth on
 * streams that stay open. Obeys the flow control of the server. Knows nothing of what is in a message.
 */
import { connect, type Socket } from "node:net";
import {
  FLAG,
  FRAME,
  FrameSplitter,
  frame,
  INITIAL_WINDOW_BYTES,
  initialWindowOf,
  literalField,
  MAX_WINDOW_BYTES,
  openSettings,
  PREFACE,
  windowUpdate,
} from "./http2-frame.ts";
import { LOCAL_HOST, type Load, Tally } from "./load.ts";

export interface GrpcRequest {
  readonly path: string;
  readonly message: Uint8Array;
  readonly isStream: boolean;
}

/**
 * Indices in HPACK's static table: ":method POST", ":scheme http"; then the names ":path", ":authority",
 * "content-type".
 */
const METHOD_AND_SCHEME = [0x83, 0x86];
const PATH = 4;
const AUTHORITY = 1;
const CONTENT_TYPE = 31;
/** Indices of the first request's four fields in the dynamic table, newest first. */
const REPEATED_FIELDS = [0xc1, 0xc0, 0xbf, 0xbe];
const MAX_FRAME_BYTES = 16_384;
const PREFIX_BYTES = 5;
/** Received bytes after which the server is told that it may send on. */
const REFILL_BYTES: number = 2 ** 29;

export function startGrpcLoad(
  port: number,
  request: GrpcRequest,
  numConnections: number,
  numClients: number,
  host: string = LOCAL_HOST,
): Load {
  const tally = new Tally();
  const perConnection = numClients / numConnections;
  const connections = Array.from(
    { length: numConnections },
    () => new Connection({ port, host }, request, perConnection, tally),
  );
  return {
    tally,
    stop: () => {
      for (const connection of connections) connection.close();
    },
  };
}

interface Call {
  readonly id: number;
  readonly startMs: number;
  /** Bytes that the server allows to be sent. */
  window: number;
  /** Bytes of the body sent. */
  sent: number;
  /** Bytes of the answer that came, and of its whole message as its prefix says. */
  received: number;
  expected: number;
}

interface Address {
  readonly port: number;
  readonly host: string;
}

class Connection {
  readonly #socket: Socket;
  readonly #request: GrpcRequest;
  readonly #body: Buffer;
  readonly #tally: Tally;
  readonly #calls = new Map<number, Call>();
  /** Calls with more to send than their window allowed. */
  readonly #blocked = new Set<Call>();
  #nextId = 1;
  #window = INITIAL_WINDOW_BYTES;
  #streamWindow = INITIAL_WINDOW_BYTES;
  #unacknowledged = 0;
  #isClosed = false;

  constructor(address: Address, request: GrpcRequest, numClients: number, tally: Tally) {
    this.#request = request;
    this.#tally = tally;
    this.#body = Buffer.alloc(PREFIX_BYTES + request.message.length);
    this.#body.writeUInt32BE(request.message.length, 1);
    this.#body.set(request.message, PREFIX_BYTES);
    const splitter = new FrameSplitter({
      data: (id, bytes, ends) => this.#data(id, bytes, ends),
      control: (type, flags, id, payload) => this.#control(type, flags, id, payload),
    });
    this.#socket = connect({ ...address, noDelay: true }, () => this.#open(address, numClients));
    this.#socket.on("error", (error) => this.#fail(error.message));
    this.#socket.on("data", (chunk: Buffer) => {
      this.#socket.cork();
      splitter.push(chunk);
      this.#socket.uncork();
    });
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  #open({ port, host }: Address, numClients: number): void {
    this.#socket.cork();
    this.#socket.write(PREFACE);
    this.#socket.write(openSettings());
    this.#socket.write(windowUpdate(0, MAX_WINDOW_BYTES - INITIAL_WINDOW_BYTES));
    for (let k = 0; k < numClients; k++) this.#begin(`${host}:${port}`);
    this.#socket.uncork();
  }

  #begin(authority = ""): void {
    const call = this.#add(this.#nextId);
    this.#nextId += 2;
    const fields = call.id === 1 ? firstFields(authority, this.#request.path) : Buffer.from(REPEATED_FIELDS);
    const block = Buffer.concat([Buffer.from(METHOD_AND_SCHEME), fields]);
    this.#socket.write(frame(FRAME.headers, FLAG.endHeaders, call.id, block));
    this.#send(call);
  }

  #add(id: number): Call {
    const call = { id, startMs: performance.now(), window: this.#streamWindow, sent: 0, received: 0, expected: 0 };
    this.#calls.set(id, call);
    return call;
  }

  /** As much of the body as the windows allow. */
  #send(call: Call): void {
    const body = this.#body;
    while (call.sent < body.length) {
      const size = Math.min(body.length - call.sent, MAX_FRAME_BYTES, call.window, this.#window);
      if (size <= 0) {
        this.#blocked.add(call);
        return;
      }
      const end = call.sent + size;
      const isLast = end === body.length && !this.#request.isStream;
      this.#socket.write(frame(FRAME.data, isLast ? FLAG.endStream : 0, call.id, body.subarray(call.sent, end)));
      call.sent = end;
      call.window -= size;
      this.#window -= size;
    }
    this.#blocked.delete(call);
  }

  #data(id: number, bytes: Buffer, ends: boolean): void {
    this.#unacknowledged += bytes.length;
    if (this.#unacknowledged > REFILL_BYTES) {
      this.#socket.write(windowUpdate(0, this.#unacknowledged));
      this.#unacknowledged = 0;
    }
    const call = this.#calls.get(id);
    if (call === undefined) {
      this.#fail(`data on unknown stream ${id}`);
      return;
    }
    // No server sends less than the prefix at once, and none sends two messages before it gets a second request.
    if (call.received === 0) call.expected = PREFIX_BYTES + bytes.readUInt32BE(1);
    call.received += bytes.length;
    if (ends) this.#fail("stream ended without trailers");
    if (this.#request.isStream && call.received === call.expected) this.#nextMessage(call);
  }

  #nextMessage(call: Call): void {
    this.#tally.answered(call.startMs);
    const next = this.#add(call.id);
    next.window = call.window;
    this.#send(next);
  }

  #control(type: number, flags: number, id: number, payload: Buffer): void {
    if (type === FRAME.headers) {
      if ((flags & FLAG.endStream) !== 0) this.#ended(id);
    } else if (type === FRAME.windowUpdate) this.#refill(id, payload.readUInt32BE(0));
    else if (type === FRAME.settings && (flags & FLAG.ack) === 0) this.#settings(payload);
    else if (type === FRAME.ping && (flags & FLAG.ack) === 0) this.#socket.write(frame(type, FLAG.ack, 0, payload));
    else if (type === FRAME.reset || type === FRAME.goAway)
      this.#fail(`frame of type ${type}: ${payload.toString("hex")}`);
  }

  #ended(id: number): void {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    if (call === undefined || call.expected === 0 || call.received !== call.expected) {
      this.#fail(`call ended after ${call?.received} bytes of ${call?.expected}`);
      return;
    }
    this.#tally.answered(call.startMs);
    this.#begin();
  }

  #settings(payload: Buffer): void {
    const window = initialWindowOf(payload);
    if (window !== undefined) {
      for (const call of this.#calls.values()) call.window += window - this.#streamWindow;
      this.#streamWindow = window;
    }
    this.#socket.write(frame(FRAME.settings, FLAG.ack, 0, Buffer.alloc(0)));
    this.#unblock();
  }

  #refill(id: number, bytes: number): void {
    const call = this.#calls.get(id);
    if (id === 0) this.#window += bytes;
    else if (call !== undefined) call.window += bytes;
    this.#unblock();
  }

  #unblock(): void {
    for (const call of this.#blocked) this.#send(call);
  }

  #fail(reason: string): void {
    if (!this.#isClosed) this.#tally.failed(new Error(`gRPC load: ${reason}`));
  }
}

function firstFields(authority: string, path: string): Buffer {
  return Buffer.concat([
    literalField(PATH, path),
    literalField(AUTHORITY, authority),
    literalField(CONTENT_TYPE, "application/grpc"),
    literalField("te", "trailers"),
  ]);
}
