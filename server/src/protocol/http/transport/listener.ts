/** The listener of an HTTP front end: its connections and their end (RFC 9112, 9). The API behind it answers. */
import type { IncomingMessage, RequestListener, Server, ServerOptions, ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { MAX_HTTP_HEADER_BYTES } from "../../../core/limits.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import { describeThrown } from "../../../core/server-error.ts";
import { http } from "../../../native/node-http.ts";
import type { Logger } from "../../../observe/log.ts";
import { type BindOptions, type BoundAddress, bind } from "../../bind.ts";
import { BodyBudget, defaultBodyBudget } from "../../body-budget.ts";
import { HTTP2_ERROR } from "../../http2/codes.ts";
import type { Http2Stream } from "../../http2/stream.ts";
import { shareListener } from "../../one-port.ts";
import { httpActivity } from "../../peer-connections.ts";
import type { TlsMaterial } from "../../tls-files.ts";
import type { HttpCall } from "../http-call.ts";
import type { HttpReply, HttpStreamReply } from "../http-reply.ts";
import { errorBody } from "../status.ts";
import { answerStream } from "./answer-stream.ts";
import { Http2Call } from "./http2-call.ts";
import { NodeCall } from "./node-call.ts";
import { QueuedResponses } from "./queued-responses.ts";
import { ClientGone } from "./read-body.ts";
import { refuseConnection } from "./refuse-connection.ts";
import { ReplyBatch } from "./reply-batch.ts";
import { sendStream } from "./send-reply.ts";
import { SilentConnections } from "./silent-connections.ts";

/** Longer than the idle time of common load balancers, so that they never use a connection that just closes. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;
/** During the drain: idle connections close when no request began or ended for this long. */
const QUIET_MS = 300;
/** The same where another process serves on and nobody waits: a client that stood still for a moment comes back to its connection. */
const HANDED_OVER_QUIET_MS = 3000;
const IDLE_CHECK_MS = 50;
/** During the drain: new connections are taken for this long at most. */
const MAX_ACCEPT_MS = 1000;
/** Node would wait two minutes for one that connects and does not begin with TLS. */
const MAX_HANDSHAKE_MS = 10_000;

/** Decides what is answered. Rejects only with `ClientGone`. */
export interface ApiHandler {
  handle(call: HttpCall): Promise<HttpReply | HttpStreamReply>;
}

export interface ListenerOptions extends BindOptions {
  readonly tls?: TlsMaterial | undefined;
  /** The answer that a connection gets after this time is its last; 0 or absent = no limit. */
  readonly maxConnectionAgeMs?: number;
  /** Bytes that the bodies of all requests may hold together; a share of the machine's memory by default. */
  readonly maxHeldBodyBytes?: number;
  /** The budget itself, where front ends share one. */
  readonly bodyBudget?: BodyBudget | undefined;
  /** Set when HTTP/2 shares the port: who takes its connections. */
  readonly acceptHttp2?: ((socket: Socket) => void) | undefined;
}

export class HttpListener {
  readonly server: Server;
  readonly #api: ApiHandler;
  readonly #options: ListenerOptions;
  readonly #log: Logger;
  readonly #budget: BodyBudget;
  /** The response to the latest request of each connection. */
  readonly #latest = new WeakMap<Duplex, ServerResponse>();
  readonly #refused = new WeakSet<Duplex>();
  readonly #silent = new SilentConnections();
  readonly #queued = new QueuedResponses();
  readonly #replies = new ReplyBatch((error, response) => {
    this.#log.error("http", describeThrown(error));
    response.destroy();
  });
  /** When each connection came; kept only when there is an age that they may not pass. */
  readonly #born = new WeakMap<Duplex, number>();
  readonly #maxAgeMs: number;
  #connectionCount = 0;
  #callCount = 0;
  #isDraining = false;
  #lastUseMs = 0;
  #lastConnectionMs = Number.NEGATIVE_INFINITY;

  constructor(api: ApiHandler, options: ListenerOptions, log: Logger) {
    const { maxHeldBodyBytes, bodyBudget = defaultBodyBudget(), maxConnectionAgeMs = 0, acceptHttp2 } = options;
    this.#api = api;
    this.#options = options;
    this.#budget = maxHeldBodyBytes === undefined ? bodyBudget : new BodyBudget(maxHeldBodyBytes);
    this.#maxAgeMs = maxConnectionAgeMs === 0 ? Number.POSITIVE_INFINITY : maxConnectionAgeMs;
    this.#log = log;
    this.server = createHttpServer(options, (request, response) => this.#accept(request, response));
    this.server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS;
    const isTls = options.tls !== undefined;
    if (acceptHttp2 !== undefined) {
      shareListener(this.server, isTls, (socket) => {
        this.#silent.heard(socket);
        acceptHttp2(socket);
      });
    }
    if (isTls) this.server.on("connection", (socket: Socket) => this.#silent.addRaw(socket));
    // In front: what takes a connection may take it for HTTP/2 at once.
    this.server.prependListener(isTls ? "secureConnection" : "connection", (socket: Socket) => {
      this.#lastConnectionMs = performance.now();
      this.#connectionCount += 1;
      if (isTls) this.#silent.addSecure(socket);
      else this.#silent.add(socket);
      options.peers?.describe(socket, () => httpActivity(this.#latest.get(socket)));
      socket.once("close", () => {
        this.#connectionCount -= 1;
      });
      if (maxConnectionAgeMs > 0) this.#born.set(socket, this.#lastConnectionMs);
    });
    this.server.on("clientError", (error, socket) => this.#refuse(error, socket));
    // Without TLS no answer can be written, and an end that waits for it never comes.
    this.server.on("tlsClientError", (_error: Error, socket: Socket) => socket.destroy());
  }

  get connectionCount(): number {
    return this.#connectionCount;
  }

  get callCount(): number {
    return this.#callCount;
  }

  /**
   * Answers what comes and says that the connection ends with it, until nobody new comes. Idle connections stay until all
   * have been quiet for a while: a request may be on its way on any of them. That is why it is not the HTTP server's own
   * close(), which drops them at once. Both ends are decided behind a poll of the event loop: timers run before it, so after a
   * standstill they would cut what has arrived and was not read. May be called again to hurry. `isHandedOver`: another process has the listening socket too,
   * so that leaving it resets no connection.
   */
  close(graceMs: number | undefined, isHandedOver = false): Promise<void> {
    this.#isDraining = true;
    this.#lastUseMs = performance.now();
    const quietMs = isHandedOver ? HANDED_OVER_QUIET_MS : QUIET_MS;
    const idleTimer = setInterval(() => setImmediate(() => this.#closeQuiet(quietMs)), IDLE_CHECK_MS);
    const cutTimer = graceMs === undefined ? undefined : setTimeout(() => this.#cut(), graceMs);
    return new Promise((resolve) => {
      const closed = (): void => {
        clearInterval(idleTimer);
        clearTimeout(cutTimer);
        resolve();
      };
      const acceptMs = isHandedOver ? 0 : Math.min(graceMs ?? MAX_ACCEPT_MS, MAX_ACCEPT_MS);
      this.#stopListening(performance.now() + acceptMs, closed);
    });
  }

  /**
   * Once nobody has connected for a while: the system resets the connections that it has completed and this process has not
   * accepted yet. Clients that are told of the end stop coming; those that do not are not waited for.
   */
  #stopListening(latestMs: number, closed: () => void): void {
    const nowMs = performance.now();
    if (nowMs >= latestMs || nowMs - this.#lastConnectionMs >= QUIET_MS) {
      NetServer.prototype.close.call(this.server, closed);
    } else {
      setTimeout(() => setImmediate(() => this.#stopListening(latestMs, closed)), IDLE_CHECK_MS);
    }
  }

  #closeQuiet(quietMs: number): void {
    if (performance.now() - this.#lastUseMs < quietMs) return;
    this.server.closeIdleConnections();
    this.#silent.closeOld();
  }

  #cut(): void {
    this.server.closeAllConnections();
    this.#silent.closeAll();
  }

  /** Whatever comes behind the first thing that is no HTTP is as little worth. */
  #refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (this.#refused.has(socket)) return;
    this.#refused.add(socket);
    refuseConnection(error, socket, this.#latest.get(socket));
  }

  listen(): Promise<BoundAddress> {
    return bind(this.server, this.#options);
  }

  /** Takes one request that came on a stream of HTTP/2. `onClosed`: it has ended. */
  acceptStream(stream: Http2Stream, onClosed: () => void): void {
    this.#callCount += 1;
    const call: Http2Call = new Http2Call(stream, this.#budget, () => {
      this.#callCount -= 1;
      if (call.trace !== undefined) endTrace(call.trace);
      onClosed();
    });
    this.#answerStream(call, stream).catch((error: unknown) => {
      call.handled();
      this.#logFailure(error, call);
      stream.reset(HTTP2_ERROR.internal);
    });
  }

  async #answerStream(call: Http2Call, stream: Http2Stream): Promise<void> {
    const reply = await this.#api.handle(call);
    call.handled();
    call.trace?.mark("HTTP_SEND_START", performance.now());
    await answerStream(stream, reply);
  }

  #accept(request: IncomingMessage, response: ServerResponse): void {
    if (numHosts(request.rawHeaders) > 1) {
      response.shouldKeepAlive = false;
      response.writeHead(400, { "Content-Type": "application/json" }).end(errorBody(TWO_HOSTS));
      return;
    }
    this.#latest.set(request.socket, response);
    this.#silent.heard(request.socket);
    if (this.#isDraining) this.#lastUseMs = performance.now();
    const call = new NodeCall(request, this.#budget);
    response.sendDate = false;
    this.#callCount += 1;
    this.#queued.add(request.socket, response);
    response.on("close", () => {
      this.#callCount -= 1;
      if (!response.writableFinished) call.abort();
      if (call.trace !== undefined) endTrace(call.trace);
      call.release();
      if (this.#isDraining) this.#lastUseMs = performance.now();
    });
    this.#answer(call, response).catch((error: unknown) => this.#fail(error, call, response));
  }

  async #answer(call: NodeCall, response: ServerResponse): Promise<void> {
    const reply = await this.#api.handle(call);
    call.handled();
    call.trace?.mark("HTTP_SEND_START", performance.now());
    if (response.destroyed) return;
    if (this.#isDraining || this.#isOld(response)) response.shouldKeepAlive = false;
    if ("chunks" in reply) await sendStream(response, reply, call);
    else this.#replies.add(response, reply);
  }

  /** A connection that is old enough for a balancer to put its client elsewhere. */
  #isOld({ socket }: ServerResponse): boolean {
    const bornMs = socket === null ? undefined : this.#born.get(socket);
    return bornMs !== undefined && performance.now() - bornMs >= this.#maxAgeMs;
  }

  /** The client left, or a stream broke when its status was long sent: only the connection can tell. */
  #fail(error: unknown, call: NodeCall, response: ServerResponse): void {
    call.handled();
    this.#logFailure(error, call);
    response.destroy();
  }

  #logFailure(error: unknown, call: HttpCall): void {
    if (!(error instanceof ClientGone))
      this.#log.error("http", `${call.method} ${call.path}: ${describeThrown(error)}`);
  }
}

/** The connection has taken the answer, or is gone. */
function endTrace(trace: RequestTrace): void {
  trace.mark("HTTP_SEND_END", performance.now());
  trace.end();
}

/** Proxies and servers that take another one of two hosts disagree on whom a request is for (RFC 9112, 3.2; CWE-444). */
const TWO_HOSTS = "Expected one Host header, got several";
const HOST_LENGTH = 4;

/** Names and values in turn. */
function numHosts(rawHeaders: readonly string[]): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? "";
    if (name.length === HOST_LENGTH && name.toLowerCase() === "host") count += 1;
  }
  return count;
}

/** Clients of HTTP/1.0, load balancers among them, send no Host, and Triton asks nobody for it. */
const SERVER_OPTIONS: ServerOptions = { maxHeaderSize: MAX_HTTP_HEADER_BYTES, requireHostHeader: false };

function createHttpServer({ tls, acceptHttp2 }: ListenerOptions, listener: RequestListener): Server {
  if (tls === undefined) return http.createServer(SERVER_OPTIONS, listener);
  const { cert, key, root, mutual } = tls;
  const secure = {
    ...SERVER_OPTIONS,
    cert: Buffer.from(cert),
    key: Buffer.from(key),
    requestCert: mutual,
    rejectUnauthorized: mutual,
    handshakeTimeout: MAX_HANDSHAKE_MS,
    ALPNProtocols: acceptHttp2 === undefined ? ["http/1.1"] : ["h2", "http/1.1"],
  };
  return createSecureServer(root === undefined ? secure : { ...secure, ca: Buffer.from(root) }, listener);
}
