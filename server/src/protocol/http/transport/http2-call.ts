/** An `HttpCall` over an HTTP/2 stream on a shared port (RFC 9113, 8.3). */
import { Readable } from "node:stream";
import { Cancellation } from "../../../core/cancellation.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import type { BodyBudget } from "../../body-budget.ts";
import type { CallAccess } from "../../call-access.ts";
import { HeldBytes } from "../../held-bytes.ts";
import type { Http2Stream, StreamListener } from "../../http2/stream.ts";
import type { HttpBody, HttpCall, Reserve } from "../http-call.ts";
import type { ContentType } from "../http-reply.ts";
import { pathOf, queryOf } from "./node-call.ts";
import { BodyCollector, ClientGone } from "./read-body.ts";

export class Http2Call implements HttpCall, StreamListener {
  readonly method: string;
  readonly path: string;
  readonly arrivalMs: number;
  errorType: ContentType = "text/plain";
  trace: RequestTrace | undefined;
  access: CallAccess | undefined;
  readonly #stream: Http2Stream;
  readonly cancellation: Cancellation = new Cancellation();
  readonly #held: HeldBytes;
  readonly #onClosed: () => void;
  #isClosed = false;
  #isHandled = false;
  #collector: BodyCollector | undefined;
  #pieces: Readable | undefined;
  #settle:
    | { readonly resolve: (body: HttpBody | Promise<HttpBody>) => void; readonly reject: (error: unknown) => void }
    | undefined;

  /** `onClosed`: the stream has ended, with or without an answer. */
  constructor(stream: Http2Stream, budget: BodyBudget, onClosed: () => void) {
    const { headers } = stream.head;
    this.#stream = stream;
    this.#held = new HeldBytes(budget);
    this.#onClosed = onClosed;
    this.method = headers[":method"] ?? "";
    this.path = pathOf(headers[":path"] ?? "");
    this.arrivalMs = performance.now();
    // The body has no reader yet; the stream's window bounds the buffered bytes.
    stream.pause();
    stream.listener = this;
  }

  get query(): string {
    return queryOf(this.#stream.head.headers[":path"] ?? "");
  }

  /** As sent, but for what HTTP/1.1 has in its first line. */
  get rawHeaders(): readonly string[] {
    return this.#stream.head.fields.filter((_, i, all) => !(all[i - (i % 2)] ?? "").startsWith(":"));
  }

  get signal(): AbortSignal {
    return this.cancellation.signal;
  }

  get isCancelled(): boolean {
    return this.cancellation.isCancelled;
  }

  header(name: string): string | undefined {
    return this.#stream.head.headers[name];
  }

  body(maxBytes: number, reserve?: Reserve): Promise<HttpBody> {
    return new Promise((resolve, reject) => {
      if (this.#stream.isClosed) {
        reject(new ClientGone());
        return;
      }
      this.#collector = new BodyCollector(maxBytes, this.#stream.head.contentLength ?? 0, reserve);
      this.#settle = { resolve, reject };
      this.#stream.resume();
    });
  }

  stream(): AsyncIterable<Uint8Array> {
    const pieces = new Readable({ read: () => this.#stream.resume() });
    this.#pieces = pieces;
    if (this.#stream.isClosed) pieces.destroy(new ClientGone());
    return pieces;
  }

  hold(numBytes: number): void {
    this.#held.hold(numBytes);
  }

  giveBack(numBytes: number): void {
    this.#held.giveBack(numBytes);
  }

  /** As `NodeCall.handled()`. */
  handled(): void {
    this.#isHandled = true;
    if (this.#isClosed) this.#held.release();
  }

  data(piece: Buffer): void {
    if (this.#pieces !== undefined && !this.#pieces.destroyed && !this.#pieces.push(piece)) this.#stream.pause();
    try {
      this.#collector?.add(piece, this);
    } catch (error) {
      this.#collector = undefined;
      this.#settle?.reject(error);
    }
  }

  end(): void {
    this.#pieces?.push(null);
    if (this.#collector !== undefined) this.#settle?.resolve(this.#collector.finishInTurns());
  }

  closed(): void {
    if (!this.#stream.isOutputOver) this.cancellation.cancel();
    this.#collector = undefined;
    this.#settle?.reject(new ClientGone());
    if (this.#pieces?.readableEnded === false) this.#pieces.destroy(new ClientGone());
    this.#isClosed = true;
    if (this.#isHandled) this.#held.release();
    this.#onClosed();
  }
}
