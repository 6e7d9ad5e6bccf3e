/**
 * Responses from a scheduler to a front end: a queue with one producer and one consumer. The consumer iterates; a
 * faster producer can await `drained()`.
 */
import type { InferResponse } from "./infer-response.ts";
import type { ServerError } from "./server-error.ts";

/** Queued responses from which `drained()` blocks the producer. */
const HIGH_WATER = 64;

export class ResponseStream implements AsyncIterable<InferResponse>, AsyncIterator<InferResponse, undefined> {
  #queue: InferResponse[] = [];
  #error: ServerError | undefined;
  #ended = false;
  #waiting:
    | { resolve: (r: IteratorResult<InferResponse, undefined>) => void; reject: (e: ServerError) => void }
    | undefined;
  #drained: { promise: Promise<void>; resolve: () => void } | undefined;

  /** Adds one response; the one marked `final` ends the stream. Anything after the end is dropped. */
  push(response: InferResponse): void {
    if (this.#ended) return;
    if (response.final) this.#ended = true;
    const waiting = this.#waiting;
    if (waiting !== undefined) {
      this.#waiting = undefined;
      waiting.resolve({ done: false, value: response });
    } else {
      this.#queue.push(response);
    }
  }

  /** Ends the stream with an error, after the responses already pushed. Ignored when the stream has ended. */
  fail(error: ServerError): void {
    if (this.#ended) return;
    this.#ended = true;
    const waiting = this.#waiting;
    if (waiting !== undefined) {
      this.#waiting = undefined;
      waiting.reject(error);
    } else {
      this.#error = error;
    }
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Resolves when the queue is short enough for the producer to continue; undefined: it is. */
  drained(): Promise<void> | undefined {
    if (this.#queue.length < HIGH_WATER || this.#ended) return undefined;
    if (this.#drained === undefined) {
      let release = (): void => undefined;
      const promise = new Promise<void>((resolve) => {
        release = resolve;
      });
      this.#drained = { promise, resolve: release };
    }
    return this.#drained.promise;
  }

  next(): Promise<IteratorResult<InferResponse, undefined>> {
    const response = this.#queue.shift();
    if (response !== undefined) {
      if (this.#queue.length < HIGH_WATER) this.#release();
      return Promise.resolve({ done: false, value: response });
    }
    const error = this.#error;
    if (error !== undefined) {
      this.#error = undefined;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  /**
   * The consumer leaves early: queued responses are dropped, and the producer learns it through the request's signal.
   */
  return(): Promise<IteratorResult<InferResponse, undefined>> {
    this.#ended = true;
    this.#queue = [];
    this.#release();
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #release(): void {
    this.#drained?.resolve();
    this.#drained = undefined;
  }
}
