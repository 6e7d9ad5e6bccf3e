/**
 * One connection of the gRPC port: its open calls, the client's pings, the server's own keepalive, its age, and its end
 * (gRPC over HTTP/2; https://grpc.io/docs/guides/keepalive). Frames and streams belong to the HTTP/2 connection below.
 */
import type { Socket } from "node:net";
import { MAX_GRPC_CONCURRENT_STREAMS, MAX_GRPC_HEADER_LIST_BYTES } from "../../../core/limits.ts";
import { HTTP2_ERROR, type Http2Fault } from "../../http2/codes.ts";
import { Http2Connection } from "../../http2/connection.ts";
import type { ConnectionLimits, ConnectionListener } from "../../http2/connection-listener.ts";
import type { Http2Stream } from "../../http2/stream.ts";
import type { Activity } from "../../peer-connections.ts";
import type { GrpcKeepaliveOptions } from "../options.ts";
import { isPingTooEarly } from "./ping-policy.ts";

/** Node's timers fire at once past this. */
const MAX_TIMER_MS: number = 2 ** 31 - 1;
/** Trailers of the last call and the GOAWAY get this long to leave before the socket is closed. */
const CLOSE_GRACE_MS = 1000;

const LIMITS: ConnectionLimits = {
  maxStreams: MAX_GRPC_CONCURRENT_STREAMS,
  maxHeaderListBytes: MAX_GRPC_HEADER_LIST_BYTES,
  // A 64 KiB window makes a 600 KB tensor wait for nine round trips.
  streamWindowBytes: 1024 * 1024,
  connectionWindowBytes: 16 * 1024 * 1024,
};

/** A connection's requirements of the front end. */
export interface ConnectionHost {
  request(stream: Http2Stream, connection: Connection): void;
  disconnected(connection: Connection, fault: Http2Fault | undefined): void;
}

export class Connection implements ConnectionListener {
  readonly #http2: Http2Connection;
  readonly #keepalive: GrpcKeepaliveOptions;
  readonly #host: ConnectionHost;
  #pingTimer: NodeJS.Timeout | undefined;
  #ageTimer: NodeJS.Timeout | undefined;
  #lastPingMs = Number.NEGATIVE_INFINITY;
  #strikes = 0;
  #numSentAtPing = 0;
  #isLeaving = false;

  constructor(socket: Socket, keepalive: GrpcKeepaliveOptions, host: ConnectionHost) {
    this.#http2 = new Http2Connection(socket, LIMITS, this);
    this.#keepalive = keepalive;
    this.#host = host;
    if (keepalive.timeMs > 0 && keepalive.timeMs <= MAX_TIMER_MS) {
      this.#pingTimer = setInterval(() => this.#ping(), keepalive.timeMs).unref();
    }
    if (keepalive.maxConnectionAgeMs > 0) {
      this.#ageTimer = setTimeout(() => this.#aged(), Math.min(keepalive.maxConnectionAgeMs, MAX_TIMER_MS)).unref();
    }
    this.#http2.start();
  }

  get activity(): Activity {
    return this.#http2.activity;
  }

  stream(stream: Http2Stream): void {
    this.#strikes = 0;
    this.#host.request(stream, this);
  }

  goneAway(): void {
    this.leave();
  }

  closed(fault: Http2Fault | undefined): void {
    clearInterval(this.#pingTimer);
    clearTimeout(this.#ageTimer);
    this.#host.disconnected(this, fault);
  }

  /** Tells the client to open no more calls; closes when the last open one has ended. */
  leave(): void {
    if (this.#isLeaving) return;
    this.#isLeaving = true;
    this.#http2.leave();
    if (this.#http2.streamCount > 0) return;
    // A call may have been on its way when the client was told: it ends first.
    const destroyIdle = (): void => {
      if (this.#http2.streamCount === 0) this.#http2.destroy();
    };
    setTimeout(destroyIdle, CLOSE_GRACE_MS).unref();
  }

  /** Ends the connection, gracefully for a moment. */
  close(): void {
    this.leave();
    this.#destroyAfter(CLOSE_GRACE_MS);
  }

  #destroyAfter(delayMs: number): void {
    setTimeout(() => this.#http2.destroy(), Math.min(delayMs, MAX_TIMER_MS)).unref();
  }

  pinged(): void {
    const nowMs = performance.now();
    // Clients measure the connection with pings while they receive: those are none too many.
    if (this.#http2.numSentFrames !== this.#numSentAtPing) {
      this.#numSentAtPing = this.#http2.numSentFrames;
      this.#strikes = 0;
      this.#lastPingMs = nowMs;
      return;
    }
    const isEarly = isPingTooEarly(nowMs - this.#lastPingMs, this.#http2.streamCount > 0, this.#keepalive);
    this.#lastPingMs = nowMs;
    if (!isEarly) return;
    this.#strikes += 1;
    if (this.#keepalive.maxPingStrikes > 0 && this.#strikes > this.#keepalive.maxPingStrikes) {
      this.#http2.expel(HTTP2_ERROR.enhanceYourCalm, "too_many_pings");
    }
  }

  #ping(): void {
    if (this.#http2.streamCount === 0 && !this.#keepalive.permitWithoutCalls) return;
    const timer = setTimeout(() => this.#http2.destroy(), this.#keepalive.timeoutMs).unref();
    const isSent = this.#http2.ping(() => clearTimeout(timer));
    if (!isSent) clearTimeout(timer);
  }

  #aged(): void {
    this.leave();
    const graceMs = this.#keepalive.maxConnectionAgeGraceMs;
    if (graceMs > 0) this.#destroyAfter(graceMs);
  }
}
