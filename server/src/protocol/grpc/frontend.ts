/**
 * The gRPC port: HTTP/2 connections, a table of methods, and a drain without lost calls (gRPC over HTTP/2,
 * https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). Knows no message type: methods.ts makes the methods.
 */
import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import type { KeyGate } from "../../access/key-gate.ts";
import type { ModelServer } from "../../core/model-server.ts";
import type { Logger } from "../../observe/log.ts";
import { type BoundAddress, bind } from "../bind.ts";
import { type BodyBudget, defaultBodyBudget } from "../body-budget.ts";
import type { Http2Fault } from "../http2/codes.ts";
import { type Http2Stream, stopInput } from "../http2/stream.ts";
import type { LoadReports } from "../load-report-text.ts";
import type { Restrictions } from "../restriction.ts";
import { SharedMemoryRegions } from "../shared-memory.ts";
import { CallLog } from "./call-log.ts";
import { expectKey } from "./key-check.ts";
import type { GrpcOptions } from "./options.ts";
import { expectAllowed, grpcRestrictions } from "./restriction.ts";
import type { GrpcMethod } from "./routes/method.ts";
import { createMethods } from "./routes/methods.ts";
import { DRAINING, GRPC_STATUS, GrpcError, statusTrailers } from "./status.ts";
import { type CallEnvironment, GrpcCall } from "./transport/call.ts";
import { ACCEPTED_ENCODINGS } from "./transport/compression.ts";
import { Connection, type ConnectionHost } from "./transport/connection.ts";

export interface GrpcFrontend {
  listen(): Promise<BoundAddress>;
  /** Takes a connection of HTTP/2 that came to a port that is shared. Not with TLS of its own. */
  accept(socket: Socket): void;
  /** Connections and calls that are open. */
  readonly connectionCount: number;
  readonly callCount: number;
  /**
   * Stops accepting, lets open calls end for `graceMs`, then cancels them. Connections stay meanwhile, so that new
   * calls get UNAVAILABLE with the reason; then they get GOAWAY. Resolves when every connection is closed.
   * `isHandedOver`: another process takes new connections, so clients are sent there by GOAWAY at once, and no call is refused.
   */
  close(options?: { readonly graceMs?: number; readonly isHandedOver?: boolean }): Promise<void>;
}

export interface GrpcFrontendParts {
  readonly server: ModelServer;
  readonly options: GrpcOptions;
  /** Absent: clients cannot register shared memory. */
  readonly regions?: SharedMemoryRegions;
  readonly log: Logger;
  /** Absent: no call needs an API key. */
  readonly keys?: KeyGate | undefined;
  /** Absent: no load reports. */
  readonly load?: LoadReports;
  /** Answers what is no gRPC, on a port that is shared; absent: it is refused. */
  readonly acceptPlain?: AcceptPlain;
}

/** `onClosed`: the stream has ended. */
export type AcceptPlain = (stream: Http2Stream, onClosed: () => void) => void;

export function createGrpcFrontend(parts: GrpcFrontendParts): GrpcFrontend {
  return new Frontend(parts);
}

const LOG_LOCATION = "grpc_server";
const PLAIN_TEXT: Buffer = Buffer.from(
  "This port takes gRPC: POST, with the content type application/grpc. The REST protocol has a port of its own.\n",
);
const PLAIN_LENGTH: readonly string[] = ["content-length", String(PLAIN_TEXT.length)];
/** Connections still open this long after the end of all calls are destroyed. */
const SOCKET_GRACE_MS = 1500;

class Frontend implements GrpcFrontend, CallEnvironment, ConnectionHost {
  readonly maxMessageBytes: number;
  readonly budget: BodyBudget;
  readonly inferCompressionLevel: GrpcOptions["inferCompressionLevel"];
  readonly load: LoadReports | undefined;
  readonly #options: GrpcOptions;
  readonly #restrictions: Restrictions;
  readonly #keys: KeyGate | undefined;
  readonly #log: Logger;
  readonly #methods: ReadonlyMap<string, GrpcMethod>;
  readonly #listener: Server;
  readonly #connections = new Set<Connection>();
  readonly #calls = new Set<GrpcCall>();
  readonly #callLog: CallLog;
  /** Every open socket, those among them that never became a connection of HTTP/2. */
  readonly #sockets = new Set<Socket>();
  readonly #acceptPlain: AcceptPlain | undefined;
  /** Requests on the shared port that are no gRPC. */
  #numPlain = 0;
  #isDraining = false;
  #takesLastCalls = false;
  #onQuiet: (() => void) | undefined;

  constructor({ server, options, regions, keys, log, load, acceptPlain }: GrpcFrontendParts) {
    this.#acceptPlain = acceptPlain;
    this.load = load;
    this.#options = options;
    this.#restrictions = grpcRestrictions(this.#options.restricted);
    this.#keys = keys;
    this.#log = log;
    this.maxMessageBytes = options.maxMessageBytes;
    this.budget = options.bodyBudget ?? defaultBodyBudget();
    this.inferCompressionLevel = options.inferCompressionLevel;
    this.#methods = createMethods(server, options, regions ?? new SharedMemoryRegions(false), log);
    this.#callLog = new CallLog(log, this.#methods.keys());
    this.#listener = createListener(options, (socket) => this.accept(socket));
    this.#listener.on("connection", (socket: Socket) => this.#watch(socket));
  }

  async listen(): Promise<BoundAddress> {
    const bound = await bind(this.#listener, this.#options);
    this.#listener.on("error", (error) => this.#log.error(LOG_LOCATION, `listener failed: ${error.message}`));
    return bound;
  }

  accept(socket: Socket): void {
    this.#watch(socket);
    const connection = new Connection(socket, this.#options.keepalive, this);
    this.#connections.add(connection);
    this.#options.peers?.describe(socket, () => connection.activity);
    if (this.#isDraining) connection.leave();
  }

  #watch(socket: Socket): void {
    if (this.#sockets.has(socket)) return;
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
  }

  disconnected(connection: Connection, fault: Http2Fault | undefined): void {
    this.#connections.delete(connection);
    if (this.#isQuiet) this.#onQuiet?.();
    if (fault !== undefined) this.#log.verbose(1, LOG_LOCATION, `connection failed: ${fault.message}`);
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  get callCount(): number {
    return this.#calls.size;
  }

  async close({ graceMs = 0, isHandedOver = false }: Parameters<GrpcFrontend["close"]>[0] = {}): Promise<void> {
    this.#isDraining = true;
    this.#takesLastCalls = isHandedOver;
    const stopped = this.#listener.listening
      ? new Promise((resolve) => this.#listener.close(resolve))
      : this.#socketsClosed();
    if (isHandedOver) for (const connection of [...this.#connections]) connection.leave();
    else for (const call of [...this.#calls]) call.drain();
    await this.#quiet(graceMs);
    for (const call of [...this.#calls]) call.cancel(GRPC_STATUS.unavailable, DRAINING);
    for (const connection of [...this.#connections]) connection.close();
    const lastResort = setTimeout(() => {
      for (const socket of this.#sockets) socket.destroy();
    }, SOCKET_GRACE_MS);
    await stopped;
    clearTimeout(lastResort);
  }

  /** Connections accepted by another listener, which only this front end can close. */
  async #socketsClosed(): Promise<void> {
    await Promise.all([...this.#sockets].map((socket) => new Promise((resolve) => socket.once("close", resolve))));
  }

  logFailure(path: string, error: GrpcError): void {
    if (error.cause === undefined || error.message !== "Internal error") return;
    const cause = error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : String(error.cause);
    this.#log.error(LOG_LOCATION, `${path}: ${cause}`);
  }

  ended(call: GrpcCall): void {
    this.#calls.delete(call);
    this.#callLog.ended(call.path, call.id);
    if (this.#isQuiet) this.#onQuiet?.();
  }

  /** Last calls may come on any connection that is still open. */
  get #isQuiet(): boolean {
    return this.#calls.size === 0 && this.#numPlain === 0 && !(this.#takesLastCalls && this.#connections.size > 0);
  }

  /** Resolves when no call is open and none can come, at the latest after `graceMs`. */
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

  request(stream: Http2Stream): void {
    const { headers } = stream.head;
    if (this.#acceptPlain !== undefined && !isGrpc(headers["content-type"])) {
      this.#numPlain += 1;
      this.#acceptPlain(stream, () => this.#plainEnded());
      return;
    }
    try {
      this.#start(stream);
    } catch (error) {
      refuse(stream, GrpcError.from(error));
    }
  }

  #plainEnded(): void {
    this.#numPlain -= 1;
    if (this.#isQuiet) this.#onQuiet?.();
  }

  #start(stream: Http2Stream): void {
    const { headers } = stream.head;
    const httpStatus = headers[":method"] !== "POST" ? 405 : isGrpc(headers["content-type"]) ? 200 : 415;
    if (httpStatus !== 200) {
      refusePlain(stream, httpStatus);
      return;
    }
    // A call that was sent before its client knew of the end belongs to this process (RFC 9113, 6.8).
    if (this.#isDraining && !this.#takesLastCalls) throw new GrpcError(GRPC_STATUS.unavailable, DRAINING);
    const path = headers[":path"] ?? "";
    const method = this.#methods.get(path);
    if (method === undefined) throw new GrpcError(GRPC_STATUS.unimplemented, "");
    const id = this.#callLog.started(path);
    const access = expectKey(this.#keys, method.group, headers);
    expectAllowed(this.#restrictions, method.group, headers);
    const call = new GrpcCall(stream, method, this, { id, access });
    this.#calls.add(call);
    call.start();
  }
}

function createListener(options: GrpcOptions, accept: (socket: Socket) => void): Server {
  if (options.tls === undefined) return createServer(accept);
  const { cert, key, root, mutual } = options.tls;
  const secure = {
    ALPNProtocols: ["h2"],
    cert: pem(cert),
    key: pem(key),
    requestCert: mutual,
    rejectUnauthorized: mutual,
  };
  const server = createTlsServer(root === undefined ? secure : { ...secure, ca: pem(root) });
  server.on("secureConnection", (socket: TLSSocket) => {
    if (socket.alpnProtocol === "h2") accept(socket);
    else socket.destroy();
  });
  return server;
}

function pem(value: string | Uint8Array): Buffer {
  return Buffer.from(value);
}

function isGrpc(contentType: string | undefined): boolean {
  return contentType !== undefined && /^application\/grpc($|[+;])/.test(contentType);
}

/** A plain HTTP request is likely a person at the wrong port. */
function refusePlain(stream: Http2Stream, httpStatus: number): void {
  stream.respond([":status", String(httpStatus), "content-type", "text/plain", ...PLAIN_LENGTH]);
  stream.write(PLAIN_TEXT);
  stream.end();
  stopInput(stream);
}

/** Answers with a status and nothing else. */
function refuse(stream: Http2Stream, error: GrpcError): void {
  const trailers = statusTrailers(error.status, error.message);
  const head = [":status", "200", "content-type", "application/grpc", "grpc-accept-encoding", ACCEPTED_ENCODINGS];
  stream.respond([...head, ...trailers], { ends: true });
  stopInput(stream);
}
