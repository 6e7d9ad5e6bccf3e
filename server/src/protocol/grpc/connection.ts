/**
 * One HTTP/2 connection of the gRPC port: its open calls, the client's pings, the server's own, its age, and its end. A session
 * that said GOAWAY and has no call left is closed here, because Node may keep it.
 */
import { constants, type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import type { GrpcCall } from "./call.ts";
import type { GrpcKeepaliveOptions } from "./options.ts";
import { isPingTooEarly } from "./ping-policy.ts";

/** Node's timers fire at once past this. */
const MAX_TIMER_MS: number = 2 ** 31 - 1;
/** Trailers of the last call and the GOAWAY get this long to leave before the socket is closed. */
const CLOSE_GRACE_MS = 1000;

export class Connection {
  readonly #session: ServerHttp2Session;
  /** A session that was closed only ends its half of the socket; a peer that keeps the other half would keep both. */
  readonly #socket: Socket;
  readonly #keepalive: GrpcKeepaliveOptions;
  readonly #calls = new Set<GrpcCall>();
  #pingTimer: NodeJS.Timeout | undefined;
  #ageTimer: NodeJS.Timeout | undefined;
  #lastPingMs = Number.NEGATIVE_INFINITY;
  #strikes = 0;
  #isLeaving = false;

  constructor(session: ServerHttp2Session, socket: Socket, keepalive: GrpcKeepaliveOptions) {
    this.#session = session;
    this.#socket = socket;
    this.#keepalive = keepalive;
    session.on("ping", () => this.#pinged());
    session.on("goaway", () => this.leave());
    session.once("close", () => this.#stopTimers());
    // Node only ends its half after a fault of the client, who may keep the other half, and so the socket, for ever.
    session.once("error", () => this.#destroyAfter(CLOSE_GRACE_MS));
    if (keepalive.timeMs > 0 && keepalive.timeMs <= MAX_TIMER_MS) {
      this.#pingTimer = setInterval(() => this.#ping(), keepalive.timeMs).unref();
    }
    if (keepalive.maxConnectionAgeMs > 0) {
      this.#ageTimer = setTimeout(() => this.#aged(), Math.min(keepalive.maxConnectionAgeMs, MAX_TIMER_MS)).unref();
    }
  }

  get calls(): ReadonlySet<GrpcCall> {
    return this.#calls;
  }

  add(call: GrpcCall): void {
    this.#calls.add(call);
    this.#strikes = 0;
  }

  remove(call: GrpcCall): void {
    this.#calls.delete(call);
    this.#strikes = 0;
    if (this.#isLeaving && this.#calls.size === 0) this.close();
  }

  /** Tells the client to open no more calls; closes when the last open one has ended. */
  leave(): void {
    this.#isLeaving = true;
    if (!this.#session.closed) this.#session.close();
    if (this.#calls.size === 0) this.close();
  }

  /** Ends the session, gracefully for a moment. */
  close(): void {
    if (!this.#session.closed) this.#session.close();
    this.#destroyAfter(CLOSE_GRACE_MS);
  }

  #destroyAfter(delayMs: number): void {
    setTimeout(() => this.#destroy(), Math.min(delayMs, MAX_TIMER_MS)).unref();
  }

  #destroy(): void {
    this.#session.destroy();
    this.#socket.destroy();
  }

  #pinged(): void {
    const nowMs = performance.now();
    const isEarly = isPingTooEarly(nowMs - this.#lastPingMs, this.#calls.size > 0, this.#keepalive);
    this.#lastPingMs = nowMs;
    if (!isEarly) return;
    this.#strikes += 1;
    if (this.#keepalive.maxPingStrikes > 0 && this.#strikes > this.#keepalive.maxPingStrikes) this.#refusePings();
  }

  #refusePings(): void {
    const session = this.#session;
    if (session.destroyed) return;
    session.goaway(constants.NGHTTP2_ENHANCE_YOUR_CALM, 0, Buffer.from("too_many_pings"));
    this.#destroyAfter(CLOSE_GRACE_MS);
  }

  #ping(): void {
    const session = this.#session;
    if (session.destroyed || (this.#calls.size === 0 && !this.#keepalive.permitWithoutCalls)) return;
    const timer = setTimeout(() => this.#destroy(), this.#keepalive.timeoutMs).unref();
    const isSent = session.ping(() => clearTimeout(timer));
    if (!isSent) clearTimeout(timer);
  }

  #aged(): void {
    this.leave();
    const graceMs = this.#keepalive.maxConnectionAgeGraceMs;
    if (graceMs > 0) this.#destroyAfter(graceMs);
  }

  #stopTimers(): void {
    clearInterval(this.#pingTimer);
    clearTimeout(this.#ageTimer);
  }
}
