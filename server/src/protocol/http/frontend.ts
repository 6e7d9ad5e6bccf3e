/** The HTTP front end: a listener, its connections and their end. What is answered is decided in `HttpApi`. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Server as NetServer } from "node:net";
import type { Duplex } from "node:stream";
import type { ModelServer } from "../../core/model-server.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import { describeThrown } from "../../core/server-error.ts";
import type { Logger } from "../../observe/log.ts";
import { BodyBudget, defaultBodyBudget } from "../body-budget.ts";
import { type BoundAddress, listen } from "../http-listener.ts";
import type { LoadReports } from "../load-report-text.ts";
import { SharedMemoryRegions } from "../shared-memory.ts";
import { HttpApi, type HttpApiOptions } from "./http-api.ts";
import { NodeCall } from "./node-call.ts";
import { BodyAborted } from "./read-body.ts";
import { refuseConnection } from "./refuse-connection.ts";
import { ReplyBatch } from "./reply-batch.ts";
import { sendStream } from "./send-reply.ts";

/** Longer than the idle time of common load balancers, so that they never meet a connection that just closes. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;
/** During the drain: idle connections close when no request began or ended for this long. */
const QUIET_MS = 300;
const IDLE_CHECK_MS = 50;
/** During the drain: new connections are taken for this long at most. */
const MAX_ACCEPT_MS = 1000;

export interface HttpFrontendOptions extends HttpApiOptions {
  readonly address: string;
  /** 0 = any free port. */
  readonly port: number;
  /** What the bodies of all requests may hold together; a share of the machine's memory by default. */
  readonly maxHeldBodyBytes?: number;
}

export interface HttpFrontend {
  /** @throws the error of the socket, e.g. EADDRINUSE */
  listen(): Promise<BoundAddress>;
  /** Takes no new connections, answers what is in flight, then closes. After `graceMs` what is left is cut. */
  close(graceMs?: number): Promise<void>;
}

export interface HttpFrontendDependencies {
  readonly server: ModelServer;
  readonly options: HttpFrontendOptions;
  /** Absent: clients cannot register shared memory. */
  readonly regions?: SharedMemoryRegions;
  readonly log: Logger;
  /** Absent: nobody is told how loaded the server is. */
  readonly load?: LoadReports;
}

export function createHttpFrontend({ regions, ...parts }: HttpFrontendDependencies): HttpFrontend {
  const { options, log } = parts;
  const api = new HttpApi({ ...parts, regions: regions ?? new SharedMemoryRegions(false) });
  const { maxHeldBodyBytes } = options;
  const budget = maxHeldBodyBytes === undefined ? defaultBodyBudget() : new BodyBudget(maxHeldBodyBytes);
  const listener = new HttpListener(api, budget, log);
  return {
    listen: () => listen(listener.server, options.address, options.port),
    close: (graceMs) => listener.close(graceMs),
  };
}

class HttpListener {
  readonly server: Server;
  readonly #api: HttpApi;
  readonly #log: Logger;
  readonly #budget: BodyBudget;
  /** The response to the latest request of each connection. */
  readonly #latest = new WeakMap<Duplex, ServerResponse>();
  readonly #refused = new WeakSet<Duplex>();
  readonly #replies = new ReplyBatch((error, response) => {
    this.#log.error("http", describeThrown(error));
    response.destroy();
  });
  #isDraining = false;
  #lastUseMs = 0;
  #lastConnectionMs = Number.NEGATIVE_INFINITY;

  constructor(api: HttpApi, budget: BodyBudget, log: Logger) {
    this.#api = api;
    this.#budget = budget;
    this.#log = log;
    this.server = createServer((request, response) => this.#accept(request, response));
    this.server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS;
    this.server.on("connection", () => {
      this.#lastConnectionMs = performance.now();
    });
    this.server.on("clientError", (error, socket) => this.#refuse(error, socket));
  }

  /**
   * Answers what comes and says that the connection ends with it, until nobody new comes. Idle connections stay until all
   * have been quiet for a while: a request may be on its way on any of them. That is why it is not the HTTP server's own
   * close(), which drops them at once. May be called again to hurry.
   */
  close(graceMs: number | undefined): Promise<void> {
    this.#isDraining = true;
    this.#lastUseMs = performance.now();
    const idleTimer = setInterval(() => this.#closeQuiet(), IDLE_CHECK_MS);
    const cutTimer = graceMs === undefined ? undefined : setTimeout(() => this.server.closeAllConnections(), graceMs);
    return new Promise((resolve) => {
      const closed = (): void => {
        clearInterval(idleTimer);
        clearTimeout(cutTimer);
        resolve();
      };
      this.#stopListening(performance.now() + Math.min(graceMs ?? MAX_ACCEPT_MS, MAX_ACCEPT_MS), closed);
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
      setTimeout(() => this.#stopListening(latestMs, closed), IDLE_CHECK_MS);
    }
  }

  #closeQuiet(): void {
    if (performance.now() - this.#lastUseMs >= QUIET_MS) this.server.closeIdleConnections();
  }

  /** Whatever comes behind the first thing that is no HTTP is as little worth. */
  #refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (this.#refused.has(socket)) return;
    this.#refused.add(socket);
    refuseConnection(error, socket, this.#latest.get(socket));
  }

  #accept(request: IncomingMessage, response: ServerResponse): void {
    this.#latest.set(request.socket, response);
    if (this.#isDraining) this.#lastUseMs = performance.now();
    const call = new NodeCall(request, this.#budget);
    response.sendDate = false;
    response.on("close", () => {
      if (!response.writableFinished) call.abort();
      if (call.trace !== undefined) endTrace(call.trace);
      call.release();
      if (this.#isDraining) this.#lastUseMs = performance.now();
    });
    this.#answer(call, response).catch((error: unknown) => this.#fail(error, call, response));
  }

  async #answer(call: NodeCall, response: ServerResponse): Promise<void> {
    const reply = await this.#api.handle(call);
    call.trace?.mark("HTTP_SEND_START", performance.now());
    if (response.destroyed) return;
    if (this.#isDraining) response.shouldKeepAlive = false;
    if ("chunks" in reply) await sendStream(response, reply, call.signal);
    else this.#replies.add(response, reply);
  }

  /** The client left, or a stream broke when its status was long sent: only the connection can tell. */
  #fail(error: unknown, call: NodeCall, response: ServerResponse): void {
    if (!(error instanceof BodyAborted))
      this.#log.error("http", `${call.method} ${call.path}: ${describeThrown(error)}`);
    response.destroy();
  }
}

/** The connection has taken the answer, or is gone. */
function endTrace(trace: RequestTrace): void {
  trace.mark("HTTP_SEND_END", performance.now());
  trace.end();
}
