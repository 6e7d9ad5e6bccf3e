/**
 * Responses from a scheduler to a front end: a queue with one producer and one consumer. The consumer iterates, or takes
 * each response as it comes; a faster producer can await `drained()`.
 */
import type { InferResponse } from "./infer-response.ts";
import type { ServerError } from "./server-error.ts";

/** Queued responses from which `drained()` blocks the producer. */
const HIGH_WATER = 64;

/** Returns a promise if the next response has to wait for it. An exception ends the stream. */
export type TakeResponse = (response: InferResponse) => Promise<unknown> | undefined;

/** Settles behind the last response. @throws what the stream fails with, and what `take` throws or rejects with */
export async function forEachResponse(responses: AsyncIterable<InferResponse>, take: TakeResponse): Promise<void> {
  if (responses instanceof ResponseStream) responses.deliverTo(take);
  for await (const response of responses) {
    const behind = take(response);
    if (behind !== undefined) await behind;
  }
}

export class ResponseStream implements AsyncIterable<InferResponse>, AsyncIterator<InferResponse, undefined> {
  #queue: InferResponse[] = [];
  #error: ServerError | undefined;
  #ended = false;
  #waiting:
    | { resolve: (r: IteratorResult<InferResponse, undefined>) => void; reject: (e: unknown) => void }
    | undefined;
  #drained: { promise: Promise<void>; resolve: () => void } | undefined;
  #take: TakeResponse | undefined;
  /** The response delivered last asked to wait. */
  #isBehind = false;

  /**
   * From here on, responses that find the consumer waiting go to `take` in the call of the producer: a promise a response
   * costs more than most responses. The last one, and those that had to wait, are iterated.
   */
  deliverTo(take: TakeResponse): void {
    this.#take = take;
  }

  /** Adds one response; the one marked `final` ends the stream. Anything after the end is dropped. */
  push(response: InferResponse): void {
    if (this.#ended) return;
    if (response.final) this.#ended = true;
    const waiting = this.#waiting;
    if (waiting === undefined || this.#isBehind) {
      this.#queue.push(response);
    } else if (this.#take !== undefined && !response.final) {
      this.#deliver(this.#take, response);
    } else {
      this.#waiting = undefined;
      waiting.resolve({ done: false, value: response });
    }
  }

  #deliver(take: TakeResponse, response: InferResponse): void {
    try {
      const behind = take(response);
      if (behind === undefined) return;
      this.#isBehind = true;
      behind.then(
        () => this.#caughtUp(),
        (error: unknown) => this.#giveUp(error),
      );
    } catch (error) {
      this.#giveUp(error);
    }
  }

  /** Whatever came meanwhile is iterated. */
  #caughtUp(): void {
    this.#isBehind = false;
    const waiting = this.#waiting;
    if (waiting === undefined || (this.#queue.length === 0 && this.#error === undefined && !this.#ended)) return;
    this.#waiting = undefined;
    this.next().then(waiting.resolve, waiting.reject);
  }

  #giveUp(error: unknown): void {
    this.#isBehind = false;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    void this.return();
    waiting?.reject(error);
  }

  /** Ends the stream with an error, after the responses already pushed. Ignored when the stream has ended. */
  fail(error: ServerError): void {
    if (this.#ended) return;
    this.#ended = true;
    const waiting = this.#waiting;
    if (waiting !== undefined && !this.#isBehind) {
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
