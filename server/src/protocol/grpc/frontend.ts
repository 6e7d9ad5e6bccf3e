/**
 * The gRPC port: node:http2, a table of methods and a drain that loses nothing. Knows no message type: the methods are made in
 * methods.ts.
 */
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type SecureServerOptions,
  type ServerHttp2Session,
  type ServerHttp2Stream,
  type ServerOptions,
} from "node:http2";
import type { Socket } from "node:net";
import { MAX_GRPC_CONCURRENT_STREAMS, MAX_GRPC_HEADER_LIST_BYTES } from "../../core/limits.ts";
import type { ModelServer } from "../../core/model-server.ts";
import type { Logger } from "../../observe/log.ts";
import { type BoundAddress, bind } from "../bind.ts";
import type { LoadReports } from "../load-report-text.ts";
import { SharedMemoryRegions } from "../shared-memory.ts";
import { type CallEnvironment, closeIfOpen, GrpcCall } from "./call.ts";
import { ACCEPTED_ENCODINGS } from "./compression.ts";
import { Connection } from "./connection.ts";
import type { GrpcMethod } from "./method.ts";
import { createMethods } from "./methods.ts";
import type { GrpcOptions } from "./options.ts";
import { expectAllowed } from "./restriction.ts";
import { GRPC_STATUS, GrpcError, statusTrailers } from "./status.ts";

export interface GrpcFrontend {
  listen(): Promise<BoundAddress>;
  /** Takes a connection of HTTP/2 that came to a port that is shared. Not with TLS of its own. */
  accept(socket: Socket): void;
  /** Connections and calls that are open. */
  readonly connectionCount: number;
  readonly callCount: number;
  /**
   * Stops accepting, lets open calls end for `graceMs`, then cancels them. Meanwhile connections stay, so that new calls on
   * them are told UNAVAILABLE and why; then they get GOAWAY. Resolves when every connection is closed.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

export interface GrpcFrontendParts {
  readonly server: ModelServer;
  readonly options: GrpcOptions;
  /** Absent: clients cannot register shared memory. */
  readonly regions?: SharedMemoryRegions;
  readonly log: Logger;
  /** Absent: nobody is told how loaded the server is. */
  readonly load?: LoadReports;
  /** Answers what is no gRPC, on a port that is shared; absent: it is refused. */
  readonly acceptPlain?: AcceptPlain;
}

export type AcceptPlain = (request: Http2ServerRequest, response: Http2ServerResponse) => void;

export function createGrpcFrontend(parts: GrpcFrontendParts): GrpcFrontend {
  return new Frontend(parts);
}

const LOG_LOCATION = "grpc_server";
const DRAINING = "GRPC server is shutting down and has stopped accepting new requests.";
/** Per stream. A 64 KiB window makes a 600 KB tensor wait for nine round trips. */
const STREAM_WINDOW_BYTES: number = 1024 * 1024;
/**
 * Per connection. The default of 64 KiB makes all its streams share one small window. Far larger windows of streams and
 * connection together have been seen to stop streams that send both ways; the tests keep these two honest.
 */
const CONNECTION_WINDOW_BYTES: number = 16 * 1024 * 1024;
/** What is still connected this long after the end of all calls is cut off. */
const SOCKET_GRACE_MS = 1500;
/** Of what Node may hold for one session, answers on their way included. Its default of 10 refuses streams behind one large answer. */
const SESSION_MEMORY_MB = 8192;

class Frontend implements GrpcFrontend, CallEnvironment {
  readonly maxMessageBytes: number;
  readonly inferCompressionLevel: GrpcOptions["inferCompressionLevel"];
  readonly load: LoadReports | undefined;
  readonly #options: GrpcOptions;
  readonly #log: Logger;
  readonly #methods: ReadonlyMap<string, GrpcMethod>;
  readonly #http2: Http2Server | Http2SecureServer;
  readonly #connections = new Map<ServerHttp2Session, Connection>();
  readonly #owners = new Map<GrpcCall, Connection>();
  /** Every open socket, those among them that never became a session. */
  readonly #sockets = new Set<Socket>();
  /** Of the session that is about to be announced: Node makes it in the same turn. */
  #newSocket: Socket | undefined;
  readonly #acceptPlain: AcceptPlain | undefined;
  /** Requests on the shared port that are no gRPC. */
  readonly #plain = new Set<ServerHttp2Stream>();
  #isDraining = false;
  #onQuiet: (() => void) | undefined;

  constructor({ server, options, regions, log, load, acceptPlain }: GrpcFrontendParts) {
    this.#acceptPlain = acceptPlain;
    this.load = load;
    this.#options = options;
    this.#log = log;
    this.maxMessageBytes = options.maxMessageBytes;
    this.inferCompressionLevel = options.inferCompressionLevel;
    this.#methods = createMethods(server, options, regions ?? new SharedMemoryRegions(false));
    this.#http2 = createHttp2Server(options);
    this.#http2.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => this.#sockets.delete(socket));
    });
    this.#http2.prependListener(options.tls === undefined ? "connection" : "secureConnection", (socket: Socket) => {
      this.#newSocket = socket;
    });
    this.#http2.on("session", (session) => this.#accept(session));
    this.#http2.on(
      "stream",
      (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: string[]) =>
        this.#call(stream, headers, rawHeaders),
    );
    this.#http2.on("sessionError", (error) =>
      this.#log.verbose(1, LOG_LOCATION, `connection failed: ${error.message}`),
    );
  }

  async listen(): Promise<BoundAddress> {
    const bound = await bind(this.#http2, this.#options);
    this.#http2.on("error", (error) => this.#log.error(LOG_LOCATION, `listener failed: ${error.message}`));
    return bound;
  }

  accept(socket: Socket): void {
    this.#http2.emit("connection", socket);
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  get callCount(): number {
    return this.#owners.size;
  }

  async close({ graceMs = 0 }: { readonly graceMs?: number } = {}): Promise<void> {
    this.#isDraining = true;
    const stopped = this.#http2.listening
      ? new Promise((resolve) => this.#http2.close(resolve))
      : this.#socketsClosed();
    for (const call of [...this.#owners.keys()]) call.drain();
    await this.#quiet(graceMs);
    for (const call of [...this.#owners.keys()]) call.cancel(GRPC_STATUS.unavailable, DRAINING);
    for (const connection of [...this.#connections.values()]) connection.close();
    const lastResort = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy();
    }, SOCKET_GRACE_MS);
    await stopped;
    clearTimeout(lastResort);
  }

  /** Of connections that another listener took: nobody else waits for them. */
  async #socketsClosed(): Promise<void> {
    await Promise.all([...this.#sockets].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
  }

  logFailure(path: string, error: GrpcError): void {
    if (error.cause === undefined || error.message !== "Internal error") return;
    const cause = error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : String(error.cause);
    this.#log.error(LOG_LOCATION, `${path}: ${cause}`);
  }

  ended(call: GrpcCall): void {
    this.#owners.get(call)?.remove(call);
    this.#owners.delete(call);
    if (this.#isQuiet) this.#onQuiet?.();
  }

  #plainEnded(stream: ServerHttp2Stream): void {
    this.#plain.delete(stream);
    if (this.#isQuiet) this.#onQuiet?.();
  }

  get #isQuiet(): boolean {
    return this.#owners.size === 0 && this.#plain.size === 0;
  }

  /** Resolves when no call is open, at the latest after `graceMs`. */
  async #quiet(graceMs: number): Promise<void> {
    if (this.#isQuiet || graceMs <= 0) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onQuiet = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #accept(session: ServerHttp2Session): void {
    const socket = this.#newSocket;
    if (socket === undefined) {
      session.destroy();
      return;
    }
    const connection = new Connection(session, socket, this.#options.keepalive);
    this.#connections.set(session, connection);
    session.setLocalWindowSize(CONNECTION_WINDOW_BYTES);
    session.on("error", (error) => this.#log.verbose(1, LOG_LOCATION, `connection failed: ${error.message}`));
    session.once("close", () => this.#connections.delete(session));
    if (this.#isDraining) connection.leave();
  }

  #call(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, rawHeaders: readonly string[]): void {
    // Without a listener a reset by the client would end the process; the close that follows it does all there is to do.
    stream.on("error", (error) => this.#log.verbose(1, LOG_LOCATION, `stream failed: ${error.message}`));
    if (this.#acceptPlain !== undefined && !isGrpc(headers["content-type"])) {
      this.#plain.add(stream);
      const ended = (): void => this.#plainEnded(stream);
      // Whichever is first: a client may leave its half of a stream open for ever.
      stream.once("finish", ended);
      stream.once("close", ended);
      this.#acceptPlain(new Http2ServerRequest(stream, headers, {}, rawHeaders), new Http2ServerResponse(stream));
      return;
    }
    const connection =
      stream.session === undefined ? undefined : this.#connections.get(stream.session as ServerHttp2Session);
    if (connection === undefined) {
      stream.close();
      return;
    }
    try {
      this.#start(stream, headers, connection);
    } catch (error) {
      refuse(stream, GrpcError.from(error));
    }
  }

  #start(stream: ServerHttp2Stream, headers: IncomingHttpHeaders, connection: Connection): void {
    const httpStatus = headers[":method"] !== "POST" ? 405 : isGrpc(headers["content-type"]) ? 200 : 415;
    if (httpStatus !== 200) {
      refuseHttp(stream, httpStatus);
      return;
    }
    if (this.#isDraining) throw new GrpcError(GRPC_STATUS.unavailable, DRAINING);
    const method = this.#methods.get(headers[":path"] ?? "");
    if (method === undefined) throw new GrpcError(GRPC_STATUS.unimplemented, "");
    expectAllowed(this.#options.restricted, method.group, headers);
    const call = new GrpcCall(stream, headers, method, this);
    connection.add(call);
    this.#owners.set(call, connection);
    call.start();
  }
}

function createHttp2Server(options: GrpcOptions): Http2Server | Http2SecureServer {
  const common: ServerOptions = {
    settings: {
      maxConcurrentStreams: MAX_GRPC_CONCURRENT_STREAMS,
      initialWindowSize: STREAM_WINDOW_BYTES,
      maxHeaderListSize: MAX_GRPC_HEADER_LIST_BYTES,
    },
    maxSessionMemory: SESSION_MEMORY_MB,
  };
  if (options.tls === undefined) return createServer(common);
  const { cert, key, root, mutual } = options.tls;
  const secure: SecureServerOptions = {
    ...common,
    allowHTTP1: false,
    cert: pem(cert),
    key: pem(key),
    requestCert: mutual,
    rejectUnauthorized: mutual,
  };
  return createSecureServer(root === undefined ? secure : { ...secure, ca: pem(root) });
}

function pem(value: string | Uint8Array): Buffer {
  return Buffer.from(value);
}

function isGrpc(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/grpc($|[+;])/.test(contentType);
}

/** Answers with a status and nothing else. */
function refuse(stream: ServerHttp2Stream, error: GrpcError): void {
  if (stream.destroyed || stream.headersSent) return;
  const trailers = statusTrailers(error.status, error.message);
  const headers = { "content-type": "application/grpc", "grpc-accept-encoding": ACCEPTED_ENCODINGS, ...trailers };
  stream.respond(headers, { endStream: true });
  stopInput(stream);
}

function refuseHttp(stream: ServerHttp2Stream, status: number): void {
  stream.respond({ ":status": status }, { endStream: true });
  stopInput(stream);
}

/** What the client sends is thrown away until the answer is out, then its stream is closed. */
function stopInput(stream: ServerHttp2Stream): void {
  stream.resume();
  setImmediate(closeIfOpen, stream);
}
