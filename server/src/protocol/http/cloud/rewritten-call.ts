/** A call presented as another one, for cloud front ends with paths and headers of their own. Source: own design. */
import type { RequestTrace } from "../../../core/request-trace.ts";
import type { CallAccess } from "../../call-access.ts";
import type { AtEnd, HttpBody, HttpCall, Reserve } from "../http-call.ts";
import type { ContentType } from "../http-reply.ts";

export interface Rewriting {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** By lower-case name; undefined hides what the client sent. */
  readonly headers: ReadonlyMap<string, string | undefined>;
}

export class RewrittenCall implements HttpCall {
  readonly method: string;
  readonly path: string;
  readonly #call: HttpCall;
  readonly #headers: Rewriting["headers"];

  constructor(call: HttpCall, { method, path, headers }: Rewriting) {
    this.method = method;
    this.path = path;
    this.#call = call;
    this.#headers = headers;
  }

  get query(): string {
    return this.#call.query;
  }

  get rawHeaders(): readonly string[] {
    return this.#call.rawHeaders;
  }

  get arrivalMs(): number {
    return this.#call.arrivalMs;
  }

  get errorType(): ContentType {
    return this.#call.errorType;
  }

  set errorType(type: ContentType) {
    this.#call.errorType = type;
  }

  get trace(): RequestTrace | undefined {
    return this.#call.trace;
  }

  set trace(trace: RequestTrace | undefined) {
    this.#call.trace = trace;
  }

  get access(): CallAccess | undefined {
    return this.#call.access;
  }

  set access(access: CallAccess | undefined) {
    this.#call.access = access;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get isCancelled(): boolean {
    return this.#call.isCancelled;
  }

  header(name: string): string | undefined {
    return this.#headers.has(name) ? this.#headers.get(name) : this.#call.header(name);
  }

  get atEnd(): AtEnd | undefined {
    return this.#call.atEnd;
  }

  body(maxBytes: number, reserve?: Reserve): Promise<HttpBody> {
    return this.#call.body(maxBytes, reserve);
  }

  stream(): AsyncIterable<Uint8Array> {
    return this.#call.stream();
  }

  hold(numBytes: number): void {
    this.#call.hold(numBytes);
  }

  giveBack(numBytes: number): void {
    this.#call.giveBack(numBytes);
  }
}
