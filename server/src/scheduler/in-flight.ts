/** How many requests a scheduler has accepted and not seen the end of, and the wait for the last of them. */
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

  /** Resolves when nothing is in flight. To refuse what comes from now on is the scheduler's part. */
  drain(): Promise<void> {
    this.#isStopping = true;
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}

/** What a request gets that comes when its model is on the way out. */
export function stopping(): ServerError {
  const text = "Server is stopping, scheduler for model has stopped accepting new inference requests";
  return new ServerError("unavailable", text);
}
