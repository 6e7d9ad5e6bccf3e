/**
 * Remembers that a database cannot be reached. Calls fail at once for a second after each failed attempt, so that requests do
 * not wait one after another for the time limit. Knows no driver. Source: Nygard, "Release It!", the circuit breaker.
 */
import { ServerError } from "@nereid/server/core/server-error";

/** After a failure, calls fail without a further attempt for this many ms. */
const AWAY_MS = 1000;

export class AwayWindow {
  readonly #location: string;
  #untilMs = Number.NEGATIVE_INFINITY;
  #reason = "";

  constructor(location: string) {
    this.#location = location;
  }

  /** @throws ServerError unavailable, while the last failure is recent */
  expectThere(): void {
    if (performance.now() < this.#untilMs) throw this.#error(undefined);
  }

  /** Starts the window. `reason` holds no secrets. */
  failed(reason: string, cause: unknown): ServerError {
    this.#untilMs = performance.now() + AWAY_MS;
    this.#reason = reason;
    return this.#error(cause);
  }

  answered(): void {
    this.#untilMs = Number.NEGATIVE_INFINITY;
  }

  #error(cause: unknown): ServerError {
    const text = `${this.#location} is away (${this.#reason}); it is tried again every second`;
    return new ServerError("unavailable", text, { cause });
  }
}
