/**
 * Cancellation derived from a request's own, which can also be triggered internally. An AbortSignal is created only
 * when somebody listens: most callers only check the state.
 */
import { type InferRequest, isCancelled } from "../core/infer-request.ts";

export class DerivedCancellation {
  readonly #request: InferRequest;
  readonly #onParent = (): void => this.cancel(this.#request.signal.reason);
  #controller: AbortController | undefined;
  #isCancelled = false;
  #reason: unknown;

  constructor(request: InferRequest) {
    this.#request = request;
  }

  get isCancelled(): boolean {
    return this.#isCancelled || isCancelled(this.#request);
  }

  get signal(): AbortSignal {
    if (this.#controller !== undefined) return this.#controller.signal;
    const controller = new AbortController();
    this.#controller = controller;
    if (this.#isCancelled) controller.abort(this.#reason);
    else if (this.#request.signal.aborted) controller.abort(this.#request.signal.reason);
    else this.#request.signal.addEventListener("abort", this.#onParent, { once: true });
    return controller.signal;
  }

  cancel(reason: unknown): void {
    if (this.#isCancelled) return;
    this.#isCancelled = true;
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  /** The work has ended: stop listening to the request's signal. */
  release(): void {
    if (this.#controller !== undefined) this.#request.signal.removeEventListener("abort", this.#onParent);
  }
}
