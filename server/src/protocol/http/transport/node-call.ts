/** An `HttpCall` over Node's request and response (HTTP/1.1: RFC 9112). */
import type { IncomingMessage } from "node:http";
import { Cancellation } from "../../../core/cancellation.ts";
import type { RequestTrace } from "../../../core/request-trace.ts";
import type { BodyBudget } from "../../body-budget.ts";
import type { CallAccess } from "../../call-access.ts";
import { HeldBytes } from "../../held-bytes.ts";
import type { AtEnd, HttpBody, HttpCall, Reserve } from "../http-call.ts";
import type { ContentType } from "../http-reply.ts";
import { readBody, streamBody } from "./read-body.ts";

export class NodeCall implements HttpCall {
  readonly method: string;
  readonly path: string;
  readonly arrivalMs: number;
  errorType: ContentType = "text/plain";
  trace: RequestTrace | undefined;
  access: CallAccess | undefined;
  readonly #request: IncomingMessage;
  readonly cancellation: Cancellation = new Cancellation();
  readonly #held: HeldBytes;
  readonly #releases: (() => void)[] = [];
  #isOver = false;
  #isHandled = false;
  readonly atEnd: AtEnd = (release) => {
    if (this.#isOver) release();
    else this.#releases.push(release);
  };

  constructor(request: IncomingMessage, budget: BodyBudget) {
    this.#request = request;
    this.#held = new HeldBytes(budget);
    this.method = request.method ?? "";
    this.path = pathOf(request.url ?? "");
    this.arrivalMs = performance.now();
  }

  get query(): string {
    return queryOf(this.#request.url ?? "");
  }

  get rawHeaders(): readonly string[] {
    return this.#request.rawHeaders;
  }

  get signal(): AbortSignal {
    return this.cancellation.signal;
  }

  get isCancelled(): boolean {
    return this.cancellation.isCancelled;
  }

  /** The client is gone. */
  abort(): void {
    this.cancellation.cancel();
  }

  header(name: string): string | undefined {
    const value = this.#request.headers[name];
    return Array.isArray(value) ? value.join(", ") : value;
  }

  body(maxBytes: number, reserve?: Reserve): Promise<HttpBody> {
    return readBody(this.#request, maxBytes, this, reserve);
  }

  stream(): AsyncIterable<Uint8Array> {
    return streamBody(this.#request);
  }

  hold(numBytes: number): void {
    this.#held.hold(numBytes);
  }

  giveBack(numBytes: number): void {
    this.#held.giveBack(numBytes);
  }

  /** Nothing but the answer reads the body any more. A client that leaves earlier does not shorten the work on its request. */
  handled(): void {
    this.#isHandled = true;
    if (this.#isOver) this.#held.release();
  }

  /** The answer is sent, or the client is gone. */
  release(): void {
    if (this.#isHandled) this.#held.release();
    this.#isOver = true;
    for (const release of this.#releases.splice(0)) release();
  }
}

/** Without the query, and without scheme and host of the absolute form. */
export function pathOf(url: string): string {
  let path = url;
  if (!url.startsWith("/")) {
    const hostAt = url.indexOf("://");
    const pathAt = hostAt < 0 ? -1 : url.indexOf("/", hostAt + 3);
    if (pathAt >= 0) path = url.slice(pathAt);
  }
  const queryAt = path.indexOf("?");
  return queryAt < 0 ? path : path.slice(0, queryAt);
}

/** Behind the first `?`. RFC 3986, 3.4; requests carry no fragment. */
export function queryOf(url: string): string {
  const queryAt = url.indexOf("?");
  return queryAt < 0 ? "" : url.slice(queryAt + 1);
}
