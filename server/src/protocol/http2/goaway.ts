/**
 * The end of a connection from this side: graceful shutdown or error by GOAWAY (RFC 9113, 6.8), then its last frames.
 * The only stream that it knows is the last accepted one.
 */
import type { Socket } from "node:net";
import { FRAME, HTTP2_ERROR, MAX_WINDOW_BYTES } from "./codes.ts";
import { uint32 } from "./frame-rules.ts";
import type { FrameWriter } from "./frame-writer.ts";

/** Last frames get this long to leave. */
const LINGER_MS = 1000;
const LARGEST_ID: number = MAX_WINDOW_BYTES;

export class GoAway {
  readonly #socket: Socket;
  readonly #writer: FrameWriter;
  /** Streams above are not taken any more. */
  #lastTakenId = LARGEST_ID;
  #isLeaving = false;
  isEnding = false;

  constructor(socket: Socket, writer: FrameWriter) {
    this.#socket = socket;
    this.#writer = writer;
  }

  takes(streamId: number): boolean {
    return streamId <= this.#lastTakenId && !this.isEnding;
  }

  /** The client knows of the end, and which of its streams are the last. */
  get isAgreed(): boolean {
    return this.#lastTakenId !== LARGEST_ID;
  }

  /** False: it was asked before. */
  ask(): boolean {
    if (this.#isLeaving) return false;
    this.#isLeaving = true;
    this.goAway(LARGEST_ID, HTTP2_ERROR.none, "");
    return true;
  }

  /** All streams that were opened before the client knew have come. */
  agree(lastId: number): void {
    this.#lastTakenId = lastId;
    this.goAway(lastId, HTTP2_ERROR.none, "");
  }

  goAway(lastId: number, code: number, message: string): void {
    const payload = Buffer.concat([uint32(Math.min(lastId, this.#lastTakenId)), uint32(code), Buffer.from(message)]);
    this.#writer.frame(FRAME.goAway, 0, 0, payload);
  }

  end(): void {
    if (this.isEnding) return;
    this.isEnding = true;
    this.#writer.flush();
    this.#socket.end();
    setTimeout(() => this.#socket.destroy(), LINGER_MS).unref();
  }
}
