/**
 * The responses of a request in order, an error last, and their form as Server-Sent Events (WHATWG HTML, 9.2). Written
 * without generators: each token of each user passes here.
 */
import type { InferResponse } from "../../../core/infer-response.ts";
import type { ServedModel } from "../../../core/model-server.ts";
import { forEachResponse, ResponseStream } from "../../../core/response-stream.ts";
import { ServerError } from "../../../core/server-error.ts";
import type { PouredChunks } from "../http-reply.ts";
import type { HttpInferRequest } from "../infer/http-infer-request.ts";

/** A response of the model, or an error. */
export type Outcome = { readonly response: InferResponse } | { readonly error: ServerError };

export class Outcomes {
  readonly #request: readonly [Pick<ServedModel, "infer">, HttpInferRequest];
  #responses: AsyncIterator<InferResponse> | undefined;
  #hasFailed = false;

  constructor(request: readonly [Pick<ServedModel, "infer">, HttpInferRequest]) {
    this.#request = request;
  }

  /** Undefined behind the last. */
  async read(): Promise<Outcome | undefined> {
    if (this.#hasFailed) return undefined;
    try {
      const [model, request] = this.#request;
      this.#responses ??= model.infer(request)[Symbol.asyncIterator]();
      for (;;) {
        const { done, value } = await this.#responses.next();
        if (done === true) return undefined;
        const outcome = outcomeOf(value);
        if (outcome !== undefined) return outcome;
      }
    } catch (error) {
      this.#hasFailed = true;
      return { error: ServerError.from(error) };
    }
  }

  /** Delivers the outcomes behind those that were read, each as it comes. @throws errors of `take` */
  async deliver(take: (outcome: Outcome) => Promise<void> | undefined): Promise<void> {
    const responses = this.#responses;
    if (this.#hasFailed || responses === undefined) return;
    let thrown: unknown;
    try {
      await forEachResponse(iterableOf(responses), (response) => {
        const outcome = outcomeOf(response);
        if (outcome === undefined) return undefined;
        try {
          return take(outcome);
        } catch (error) {
          thrown = error;
          throw error;
        }
      });
    } catch (error) {
      this.#hasFailed = true;
      if (thrown !== undefined) throw thrown;
      await take({ error: ServerError.from(error) });
    }
  }

  /** The client is gone: the rest is dropped. */
  async leave(): Promise<void> {
    this.#hasFailed = true;
    await this.#responses?.return?.();
  }
}

/** Undefined for a response that only marks the end. */
function outcomeOf(response: InferResponse): Outcome | undefined {
  if (response.error !== undefined) return { error: response.error };
  return response.empty ? undefined : { response };
}

/** A stream of responses is its own iterator. */
function iterableOf(iterator: AsyncIterator<InferResponse>): AsyncIterable<InferResponse> {
  return iterator instanceof ResponseStream ? iterator : { [Symbol.asyncIterator]: () => iterator };
}

export class Events implements AsyncIterableIterator<Uint8Array, void>, PouredChunks {
  readonly #outcomes: Outcomes;
  readonly #write: (outcome: Outcome) => Uint8Array;
  #first: Outcome | undefined;

  constructor(first: Outcome, rest: Outcomes, write: (outcome: Outcome) => Uint8Array) {
    this.#first = first;
    this.#outcomes = rest;
    this.#write = write;
  }

  async next(): Promise<IteratorResult<Uint8Array, void>> {
    const outcome = this.#first ?? (await this.#outcomes.read());
    this.#first = undefined;
    return outcome === undefined ? { done: true, value: undefined } : { done: false, value: this.#write(outcome) };
  }

  async pour(write: (piece: Uint8Array) => Promise<void> | undefined): Promise<void> {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) await write(this.#write(first));
    await this.#outcomes.deliver((outcome) => write(this.#write(outcome)));
  }

  async return(): Promise<IteratorResult<Uint8Array, void>> {
    await this.#outcomes.leave();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
