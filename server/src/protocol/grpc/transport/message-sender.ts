/**
 * The sending side of a call: framing, compression in order, and back-pressure (gRPC over HTTP/2,
 * "Length-Prefixed-Message").
 */
import type { Http2Stream } from "../../http2/stream.ts";
import type { OutgoingMessage } from "../routes/method.ts";
import { deflateMessage, type GrpcEncoding } from "./compression.ts";
import { PREFIX_BYTES } from "./message-reader.ts";

/** Unsent bytes that stop the reading of further requests. Generous: a client may write a batch before it reads. */
const FAR_BEHIND_BYTES: number = 16 * 1024 * 1024;

/** Messages of a call after which the event loop gets its turn: a fast model must not keep all others waiting. */
const MAX_BURST = 16;

export class MessageSender {
  readonly encoding: GrpcEncoding;
  #burst = 0;
  readonly #stream: Http2Stream;
  /** Compression is asynchronous: what comes later waits for it here. */
  #compressing: Promise<void> | undefined;
  #drained: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  constructor(stream: Http2Stream, encoding: GrpcEncoding) {
    this.#stream = stream;
    this.encoding = encoding;
  }

  get isFarBehind(): boolean {
    return this.#stream.queuedBytes > FAR_BEHIND_BYTES;
  }

  /** A promise when the caller has to wait before it goes on: for the client, or for the others. */
  send(message: OutgoingMessage): Promise<void> | undefined {
    if (this.encoding !== "identity") return this.#queueCompressed(message, this.encoding);
    this.#write(message, 0);
    this.#stream.send();
    if (this.#stream.needsDrain) return this.drained();
    this.#burst += 1;
    if (this.#burst < MAX_BURST) return undefined;
    this.#burst = 0;
    return new Promise((resolve) => setImmediate(resolve));
  }

  /** Sends the last message and ends the stream. */
  sendLast(message: OutgoingMessage, trailers: readonly string[]): void {
    if (this.encoding !== "identity") void this.#queueCompressed(message, this.encoding);
    else this.#write(message, 0);
    this.end(trailers);
  }

  /** Ends the stream behind what was sent. */
  end(trailers: readonly string[]): void {
    const isConstant = trailers.length === 2;
    if (this.#compressing === undefined) this.#stream.end(trailers, isConstant);
    else void this.#compressing.then(() => this.#stream.end(trailers, isConstant));
  }

  /** Resolves when the client has taken what was sent, or is gone. */
  drained(): Promise<void> {
    if (!this.#stream.needsDrain || this.#stream.isClosed) return Promise.resolve();
    if (this.#drained === undefined) {
      let release = (): void => undefined;
      const promise = new Promise<void>((resolve) => {
        release = resolve;
      });
      this.#drained = { promise, resolve: release };
      this.#stream.onDrain(() => this.closed());
    }
    return this.#drained.promise;
  }

  /** The client is gone: nothing is left to wait for. */
  closed(): void {
    this.#drained?.resolve();
    this.#drained = undefined;
  }

  async #queueCompressed(message: OutgoingMessage, encoding: "gzip" | "deflate"): Promise<void> {
    const before = this.#compressing;
    const turn = this.#compressInTurn(message, encoding, before);
    this.#compressing = turn;
    await turn;
    if (this.#compressing === turn) this.#compressing = undefined;
    await this.drained();
  }

  async #compressInTurn(
    message: OutgoingMessage,
    encoding: "gzip" | "deflate",
    before: Promise<void> | undefined,
  ): Promise<void> {
    const body = Buffer.concat(message).subarray(PREFIX_BYTES);
    message.release?.();
    const data = await deflateMessage(body, encoding);
    await before;
    this.#write([Buffer.allocUnsafe(PREFIX_BYTES), data], 1);
    this.#stream.send();
  }

  #write(message: OutgoingMessage, flag: 0 | 1): void {
    const first = message[0];
    if (first === undefined) return;
    let length = -PREFIX_BYTES;
    for (const piece of message) length += piece.length;
    writePrefix(first, flag, length);
    const last = message.length - 1;
    for (let i = 0; i < last; i++) this.#stream.write(message[i] as Uint8Array); // below its length
    this.#stream.write(message[last] as Uint8Array, message.release);
  }
}

function writePrefix(target: Uint8Array, flag: 0 | 1, length: number): void {
  target[0] = flag;
  target[1] = length >>> 24;
  target[2] = length >>> 16;
  target[3] = length >>> 8;
  target[4] = length;
}
