/**
 * The requests that a process or thread of a model works on: their keys, cancellation and flow control. Knows no process
 * and no batch.
 */
import type { ParameterValue } from "../../core/infer-request.ts";
import type { RequestTrace } from "../../core/request-trace.ts";
import { ServerError } from "../../core/server-error.ts";
import type { Tensor } from "../../core/tensor.ts";
import type { BackendRequest } from "../backend.ts";

/** Responses after which a sender hears that the client has taken them; its window is a multiple of it. */
const CREDIT_STEP = 32;
const TWO_32 = 2 ** 32;

/** One answer of a model, or of a model that a model has called. */
export interface ModelAnswer {
  readonly error?: ServerError;
  readonly outputs: readonly Tensor[];
  readonly parameters: ReadonlyMap<string, ParameterValue>;
  /** As in `BackendResponse`. */
  readonly release?: (() => void) | undefined;
}

/** Notifications to the process. */
export interface RequestSignals {
  cancelled(key: number): void;
  credited(key: number, count: number): void;
}

interface InFlight {
  readonly target: BackendRequest;
  readonly onAbort: () => void;
  uncredited: number;
}

export class RequestsInFlight {
  readonly #signals: RequestSignals;
  /** True if the model gives exactly one response a request. */
  readonly #isSingle: boolean;
  readonly #requests = new Map<number, InFlight>();
  #waiting: { readonly keys: Set<number>; readonly resolve: () => void } | undefined;
  #nextKey = 1;

  constructor(decoupled: boolean, signals: RequestSignals) {
    this.#isSingle = !decoupled;
    this.#signals = signals;
  }

  get size(): number {
    return this.#requests.size;
  }

  /** Takes a request in until its last response; returns its key. */
  add(target: BackendRequest): number {
    const key = this.#nextKey;
    this.#nextKey = (this.#nextKey + 1) % TWO_32;
    const onAbort = (): void => this.#signals.cancelled(key);
    target.request.signal.addEventListener("abort", onAbort, { once: true });
    this.#requests.set(key, { target, onAbort, uncredited: 0 });
    return key;
  }

  /** Undefined when the request is not traced, or has ended. */
  traceOf(key: number): RequestTrace | undefined {
    return this.#requests.get(key)?.target.request.trace;
  }

  /** Hands on what the model answered; `response` undefined is an end without a response. */
  respond(key: number, response: ModelAnswer | undefined, isFinal: boolean): void {
    const inFlight = this.#requests.get(key);
    if (inFlight === undefined) return;
    // The one response of such a model is its last, whenever the model says so.
    const final = isFinal || this.#isSingle;
    if (final) this.#remove(key, inFlight);
    const error = response?.error;
    if (error !== undefined && final) inFlight.target.fail(error);
    else inFlight.target.respond({ outputs: [], ...response, final });
    if (final) this.#tellWaiting(key);
    else this.#credit(key, inFlight);
  }

  /** The model has given the request back: the scheduler runs it again. */
  reschedule(key: number): void {
    const inFlight = this.#requests.get(key);
    if (inFlight === undefined) return;
    const { target } = inFlight;
    if (target.reschedule === undefined) {
      const text =
        "The model released a request with the reschedule flag, which needs sequence_batching with iterative_sequence";
      this.fail(key, new ServerError("invalid_argument", text, { reason: "BACKEND" }));
      return;
    }
    this.#remove(key, inFlight);
    target.reschedule();
    this.#tellWaiting(key);
  }

  fail(key: number, error: ServerError): void {
    const inFlight = this.#requests.get(key);
    if (inFlight === undefined) return;
    this.#remove(key, inFlight);
    inFlight.target.fail(error);
    this.#tellWaiting(key);
  }

  /** Takes requests out that nothing has worked on. */
  release(keys: readonly number[]): void {
    for (const key of keys) {
      const inFlight = this.#requests.get(key);
      if (inFlight !== undefined) this.#remove(key, inFlight);
    }
  }

  failAll(error: ServerError): void {
    for (const key of [...this.#requests.keys()]) this.fail(key, error);
  }

  /** Calls back when all of these requests have ended: at once, or with the last of them. One waits at a time. */
  whenEnded(keys: readonly number[], resolve: () => void): void {
    const open = new Set(keys.filter((key) => this.#requests.has(key)));
    if (open.size === 0) resolve();
    else this.#waiting = { keys: open, resolve };
  }

  #remove(key: number, { target, onAbort }: InFlight): void {
    this.#requests.delete(key);
    target.request.signal.removeEventListener("abort", onAbort);
  }

  #tellWaiting(key: number): void {
    const waiting = this.#waiting;
    if (waiting === undefined || !waiting.keys.delete(key) || waiting.keys.size > 0) return;
    this.#waiting = undefined;
    waiting.resolve();
  }

  #credit(key: number, inFlight: InFlight): void {
    inFlight.uncredited += 1;
    if (inFlight.uncredited < CREDIT_STEP) return;
    const count = inFlight.uncredited;
    inFlight.uncredited = 0;
    void this.#creditWhenDrained(key, inFlight, count);
  }

  async #creditWhenDrained(key: number, inFlight: InFlight, count: number): Promise<void> {
    await inFlight.target.drained();
    if (this.#requests.has(key)) this.#signals.credited(key, count);
  }
}
