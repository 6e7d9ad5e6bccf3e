/**
 * The cancellation of what is done for a request: follows the request's own, and can come from inside too. A signal is made only
 * when somebody listens to it: most of those who ask only want to know whether it is worth to begin.
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

  /** Nothing is done any more: the request's signal need not be listened to. */
  release(): void {
    if (this.#controller !== undefined) this.#request.signal.removeEventListener("abort", this.#onParent);
  }
}
