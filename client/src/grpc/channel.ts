/**
 * gRPC calls over connections of HTTP/2 that stay open (RFC 9113; gRPC over HTTP/2,
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md), by Node's own HTTP/2. Knows no message type.
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type SecureClientSessionOptions } from "node:http2";
import type { CompressionAlgorithm } from "../http/compress.ts";
import type { TlsOptions } from "../node/http-pool.ts";
import { GrpcCall } from "./grpc-call.ts";

export interface ChannelOptions {
  /** E.g. "http://localhost:8001". */
  readonly authority: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Connections that calls take turns on. */
  readonly connections: number;
  /** Undefined: no pings. */
  readonly keepAliveMs: number | undefined;
  readonly keepAliveTimeoutMs: number;
  readonly maxResponseBytes: number;
  readonly tls: TlsOptions | undefined;
}

export interface CallStart {
  /** E.g. "/inference.GRPCInferenceService/ModelInfer". */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly compression?: CompressionAlgorithm | undefined;
  /** Tells the server when to give up (gRPC over HTTP/2, "Timeout"). */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Bytes that a server may send ahead on a call and on a connection. */
const STREAM_WINDOW: number = 2 ** 24;
const CONNECTION_WINDOW: number = 2 ** 28;
/** A timeout has at most eight digits. */
const MAX_TIMEOUT = 99_999_999;

export class Channel {
  readonly #options: ChannelOptions;
  readonly #connections: Connection[];
  #turn = 0;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#connections = Array.from({ length: options.connections }, () => new Connection(options));
  }

  /** Opens a call; its messages are sent and read by the caller. */
  open(start: CallStart): GrpcCall {
    const connection = this.#connections[this.#turn];
    this.#turn = (this.#turn + 1) % this.#connections.length;
    if (connection === undefined) throw new RangeError("a channel has at least one connection");
    const stream = connection.request({ ...this.#options.headers, ...start.headers, ...callHeaders(start) });
    return new GrpcCall(stream, this.#options.maxResponseBytes, start.signal);
  }

  /** Ends all connections; calls under way fail. */
  close(): void {
    for (const connection of this.#connections) connection.close();
  }
}

function callHeaders({ path, compression, timeoutMs }: CallStart): Record<string, string> {
  return {
    ":method": "POST",
    ":path": path,
    "content-type": "application/grpc",
    te: "trailers",
    "grpc-accept-encoding": "identity,deflate,gzip",
    ...(compression === undefined ? {} : { "grpc-encoding": compression }),
    ...(timeoutMs === undefined ? {} : { "grpc-timeout": timeoutText(timeoutMs) }),
  };
}

/** Milliseconds, or seconds where these have too many digits. */
function timeoutText(timeoutMs: number): string {
  const whole = Math.max(1, Math.ceil(timeoutMs));
  return whole <= MAX_TIMEOUT ? `${whole}m` : `${Math.min(Math.ceil(whole / 1000), MAX_TIMEOUT)}S`;
}

/** One connection, made with its first call and again after its end. It keeps a program alive only during calls. */
class Connection {
  readonly #options: ChannelOptions;
  #session: ClientHttp2Session | undefined;
  #calls = 0;

  constructor(options: ChannelOptions) {
    this.#options = options;
  }

  request(headers: Record<string, string>): ClientHttp2Stream {
    const session = this.#open();
    const stream = session.request(headers);
    this.#calls += 1;
    session.ref?.();
    stream.once("close", () => {
      this.#calls -= 1;
      if (this.#calls === 0) this.#session?.unref?.();
    });
    return stream;
  }

  close(): void {
    this.#session?.destroy();
  }

  #open(): ClientHttp2Session {
    const before = this.#session;
    if (before !== undefined && !before.closed && !before.destroyed) return before;
    const { authority, tls, keepAliveMs } = this.#options;
    const options: SecureClientSessionOptions & { readonly strictFieldWhitespaceValidation: boolean } = {
      ...tls,
      // Triton's messages may end with a space, which nghttp2 would drop with the whole field.
      strictFieldWhitespaceValidation: false,
      settings: { enablePush: false, initialWindowSize: STREAM_WINDOW },
    };
    const session = connect(authority, options);
    // Each call gets the error of its connection; without a listener it would end the program.
    session.on("error", () => undefined);
    session.once("connect", () => session.setLocalWindowSize?.(CONNECTION_WINDOW));
    if (keepAliveMs !== undefined) this.#keepAlive(session, keepAliveMs);
    this.#session = session;
    return session;
  }

  /** Pings find connections that are lost without a word (gRPC, "Client-side Keepalive"). */
  #keepAlive(session: ClientHttp2Session, keepAliveMs: number): void {
    const timer = setInterval(() => {
      if (this.#calls === 0) return;
      const { keepAliveTimeoutMs } = this.#options;
      const late = setTimeout(
        () => session.destroy(new Error(`no answer to a ping within ${keepAliveTimeoutMs} ms`)),
        keepAliveTimeoutMs,
      );
      session.ping(() => clearTimeout(late));
    }, keepAliveMs);
    timer.unref();
    session.once("close", () => clearInterval(timer));
  }
}
