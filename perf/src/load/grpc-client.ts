/**
 * One connection of gRPC over HTTP/2 (RFC 9113; gRPC's PROTOCOL-HTTP2.md) with prebuilt messages: unary calls, and streams that
 * stay open. Obeys the flow control of the server. Knows nothing of what is in a message.
 */
import type { Socket } from "node:net";
import { HeaderDecoder } from "@nereid/server/protocol/http2/header-decoder";
import { type Address, openSocket } from "./connect.ts";
import type { AnswerSink } from "./exchange.ts";
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

/** Indices in HPACK's static table (RFC 7541, appendix A): ":method POST", ":scheme http"; then names. */
const METHOD_POST = 0x83;
const SCHEME_HTTP = 0x86;
const SCHEME_HTTPS = 0x87;
const PATH = 4;
const AUTHORITY = 1;
const CONTENT_TYPE = 31;
/** Index of the newest entry of the dynamic table, as an indexed field. */
const NEWEST_ENTRY = 0xbe;
const MAX_FRAME_BYTES = 16_384;
const PREFIX_BYTES = 5;
/** Received bytes after which the server is told that it may send on. */
const REFILL_BYTES: number = 2 ** 29;
const MAX_HEADER_LIST_BYTES = 65_536;

/** A call whose client may send further messages. */
export interface GrpcStream {
  /** `message` carries its prefix. The answers come to the sink of the stream. */
  send(message: Uint8Array): void;
  /** No further message follows. */
  end(): void;
}

interface Call {
  readonly id: number;
  readonly sink: AnswerSink;
  /** Bytes that the server allows to be sent. */
  window: number;
  /** Unsent parts of messages, oldest first. */
  unsent: Uint8Array[];
  endsAfter: boolean;
  /** Part of a message that is not whole. */
  kept: Buffer | undefined;
  numMessages: number;
  status: string | undefined;
  statusMessage: string;
}

/** Prefix of a message that is not compressed, and the message. */
export function grpcFrame(message: Uint8Array): Buffer {
  const bytes = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  bytes[0] = 0;
  bytes.writeUInt32BE(message.length, 1);
  bytes.set(message, PREFIX_BYTES);
  return bytes;
}

export class GrpcClient {
  readonly #socket: Socket;
  readonly #headers: HeaderEncoder;
  readonly #decoder = new HeaderDecoder(MAX_HEADER_LIST_BYTES);
  readonly #calls = new Map<number, Call>();
  /** Calls with more to send than their window allowed. */
  readonly #blocked = new Set<Call>();
  #nextId = 1;
  #window = INITIAL_WINDOW_BYTES;
  #streamWindow = INITIAL_WINDOW_BYTES;
  #unacknowledged = 0;
  #isClosed = false;

  /** `metadata`: header fields of each call. */
  constructor(address: Address, metadata: readonly (readonly [name: string, value: string])[] = []) {
    this.#headers = new HeaderEncoder(address, metadata);
    const splitter = new FrameSplitter({
      data: (id, bytes) => this.#data(id, bytes),
      control: (type, flags, id, payload) => this.#control(type, flags, id, payload),
    });
    this.#socket = openSocket(address, "h2", () => undefined);
    this.#socket.on("error", (error) => this.#lost(error.message));
    this.#socket.on("close", () => this.#lost("the server closed the connection"));
    this.#socket.on("data", (chunk: Buffer) => {
      this.#socket.cork();
      splitter.push(chunk);
      this.#socket.uncork();
    });
    this.#socket.write(
      Buffer.concat([PREFACE, openSettings(), windowUpdate(0, MAX_WINDOW_BYTES - INITIAL_WINDOW_BYTES)]),
    );
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** `message` carries its prefix. The sink ends with the call. */
  call(path: string, message: Uint8Array, sink: AnswerSink): void {
    const call = this.#begin(path, sink);
    call.endsAfter = true;
    call.unsent.push(message);
    this.#send(call);
  }

  open(path: string, sink: AnswerSink): GrpcStream {
    const call = this.#begin(path, sink);
    return {
      send: (message) => {
        call.unsent.push(message);
        this.#send(call);
      },
      end: () => {
        call.endsAfter = true;
        this.#socket.write(frame(FRAME.data, FLAG.endStream, call.id, new Uint8Array(0)));
      },
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  #begin(path: string, sink: AnswerSink): Call {
    const id = this.#nextId;
    this.#nextId += 2;
    const call: Call = {
      id,
      sink,
      window: this.#streamWindow,
      unsent: [],
      endsAfter: false,
      kept: undefined,
      numMessages: 0,
      status: undefined,
      statusMessage: "",
    };
    this.#calls.set(id, call);
    this.#socket.write(frame(FRAME.headers, FLAG.endHeaders, id, this.#headers.block(path)));
    return call;
  }

  /** As much of the messages as the windows allow. */
  #send(call: Call): void {
    for (;;) {
      const [first] = call.unsent;
      if (first === undefined) break;
      const size = Math.min(first.length, MAX_FRAME_BYTES, call.window, this.#window);
      if (size <= 0) {
        this.#blocked.add(call);
        return;
      }
      const isAll = size === first.length;
      const isLast = isAll && call.endsAfter && call.unsent.length === 1;
      this.#socket.write(frame(FRAME.data, isLast ? FLAG.endStream : 0, call.id, first.subarray(0, size)));
      if (isAll) call.unsent.shift();
      else call.unsent[0] = first.subarray(size);
      call.window -= size;
      this.#window -= size;
    }
    this.#blocked.delete(call);
  }

  #data(id: number, bytes: Buffer): void {
    this.#unacknowledged += bytes.length;
    if (this.#unacknowledged > REFILL_BYTES) {
      this.#socket.write(windowUpdate(0, this.#unacknowledged));
      this.#unacknowledged = 0;
    }
    const call = this.#calls.get(id);
    if (call === undefined) return;
    let rest = call.kept === undefined ? bytes : Buffer.concat([call.kept, bytes]);
    for (;;) {
      const size = rest.length < PREFIX_BYTES ? undefined : PREFIX_BYTES + rest.readUInt32BE(1);
      if (size === undefined || rest.length < size) break;
      call.numMessages += 1;
      call.sink.part?.(rest.subarray(PREFIX_BYTES, size));
      rest = rest.subarray(size);
    }
    call.kept = rest.length === 0 ? undefined : rest;
  }

  #control(type: number, flags: number, id: number, payload: Buffer): void {
    if (type === FRAME.headers) this.#headersCame(id, flags, payload);
    else if (type === FRAME.windowUpdate) this.#refill(id, payload.readUInt32BE(0));
    else if (type === FRAME.settings && (flags & FLAG.ack) === 0) this.#settings(payload);
    else if (type === FRAME.ping && (flags & FLAG.ack) === 0) this.#socket.write(frame(type, FLAG.ack, 0, payload));
    else if (type === FRAME.reset) this.#end(id, `the server reset the stream with code ${payload.readUInt32BE(0)}`);
    else if (type === FRAME.goAway) this.#socket.destroy(new Error(`GOAWAY: ${payload.subarray(8).toString()}`));
  }

  #headersCame(id: number, flags: number, payload: Buffer): void {
    const { fields } = this.#decoder.decode(payload); // every block: they share a table
    const call = this.#calls.get(id);
    if (call === undefined || (flags & FLAG.endStream) === 0) return;
    for (let at = 0; at < fields.length; at += 2) {
      if (fields[at] === "grpc-status") call.status = fields[at + 1];
      else if (fields[at] === "grpc-message") call.statusMessage = fields[at + 1] ?? "";
    }
    this.#end(id, failureOf(call));
  }

  #end(id: number, failure: string | undefined): void {
    const call = this.#calls.get(id);
    if (call === undefined) return;
    this.#calls.delete(id);
    this.#blocked.delete(call);
    call.sink.end(failure);
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

  #lost(reason: string): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const id of [...this.#calls.keys()]) this.#end(id, reason);
  }
}

function failureOf({ status, statusMessage, numMessages, kept }: Call): string | undefined {
  if (status !== "0") return `gRPC status ${status ?? "missing"}: ${decodeURIComponent(statusMessage)}`;
  if (kept !== undefined) return "the call ended inside a message";
  return numMessages === 0 ? "the call ended without a message" : undefined;
}

/** The first call of a path puts its fields into the dynamic table; later ones are indices (RFC 7541, 2.3.2). */
class HeaderEncoder {
  readonly #fixed: Buffer;
  readonly #fields: readonly Buffer[];
  readonly #repeated: Buffer;
  #path: string | undefined;

  constructor({ host, port, tls }: Address, metadata: readonly (readonly [string, string])[]) {
    this.#fixed = Buffer.from([METHOD_POST, tls === undefined ? SCHEME_HTTP : SCHEME_HTTPS]);
    this.#fields = [
      literalField(AUTHORITY, `${host}:${port}`),
      literalField(CONTENT_TYPE, "application/grpc"),
      literalField("te", "trailers"),
      ...metadata.map(([name, value]) => literalField(name.toLowerCase(), value)),
    ];
    const oldest = NEWEST_ENTRY + this.#fields.length; // the path
    const indices = Array.from({ length: this.#fields.length + 1 }, (_, k) => oldest - k);
    this.#repeated = Buffer.concat([this.#fixed, Buffer.from(indices)]);
  }

  /** A connection with calls of several paths writes its fields again with each change. */
  block(path: string): Buffer {
    if (path === this.#path) return this.#repeated;
    this.#path = path;
    return Buffer.concat([this.#fixed, literalField(PATH, path), ...this.#fields]);
  }
}
