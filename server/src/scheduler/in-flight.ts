/** Counts a scheduler's accepted and unfinished requests, and waits for the last one when draining. */
import { ServerError } from "../core/server-error.ts";

export class InFlight {
  #count = 0;
  #isStopping = false;
  #onEmpty: (() => void) | undefined;

  get count(): number {
    return this.#count;
  }

  /** True from the first call of `drain` on. */
  get isStopping(): boolean {
    return this.#isStopping;
  }

  begin(): void {
    this.#count += 1;
  }

  end(): void {
    this.#count -= 1;
    if (this.#count === 0) this.#onEmpty?.();
  }

  /** Resolves when no request is in flight. The scheduler refuses new requests itself. */
  drain(): Promise<void> {
    this.#isStopping = true;
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}

/** The error for a request that arrives while its model is unloading. */
export function stopping(): ServerError {
  const text = "Server is stopping, scheduler for model has stopped accepting new inference requests";
  return new ServerError("unavailable", text);
}
