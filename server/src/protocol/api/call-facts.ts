/** The facts of an HTTP call that a text model needs. The abort signal is made on first use. Source: own design. */
import type { RequestTrace } from "../../core/request-trace.ts";
import type { CallFacts, TokenMeter } from "../../text-model/text-request.ts";
import type { HttpCall } from "../http/http-call.ts";

export class HttpCallFacts implements CallFacts {
  readonly id: string;
  readonly arrivalMs: number;
  readonly trace: RequestTrace | undefined;
  readonly #call: HttpCall;

  readonly meter: TokenMeter | undefined;

  constructor(call: HttpCall, id: string, meter?: TokenMeter, trace: RequestTrace | undefined = call.trace) {
    this.id = id;
    this.arrivalMs = call.arrivalMs;
    this.trace = trace;
    this.meter = meter;
    this.#call = call;
  }

  get cancellation(): HttpCall["cancellation"] {
    return this.#call.cancellation;
  }

  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get isCancelled(): boolean {
    return this.#call.isCancelled;
  }
}
