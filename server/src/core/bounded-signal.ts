/**
 * An `AbortSignal` that ends with another one, or after a time. `AbortSignal.any` refers to its sources weakly: on Node a
 * collected `AbortSignal.timeout` never fires (nodejs/node#57736), so that a peer that is silent would hold a request for ever.
 */
export class BoundedSignal {
  readonly signal: AbortSignal;
  readonly #late = new AbortController();
  readonly #timer: NodeJS.Timeout;

  constructor(signal: AbortSignal, timeoutMs: number) {
    this.signal = AbortSignal.any([signal, this.#late.signal]);
    this.#timer = setTimeout(() => this.#late.abort(), timeoutMs).unref();
  }

  /** Stops the clock once the work has ended. */
  clear(): void {
    clearTimeout(this.#timer);
  }
}
