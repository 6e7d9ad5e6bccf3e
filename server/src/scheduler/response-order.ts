/** Releases responses in the order in which their requests were added (`preserve_ordering`). */
import type { ScheduledRequest } from "./scheduled-request.ts";

export class ResponseOrder {
  readonly #requests: ScheduledRequest[] = [];

  /** Call before the request can have answered. */
  add(request: ScheduledRequest): void {
    if (this.#requests.push(request) > 1) request.hold();
  }

  /** Removes ended requests at the head; the first unended one may then answer directly. */
  ended(): void {
    while (this.#requests[0]?.ended === true) {
      this.#requests.shift()?.release();
      this.#requests[0]?.release();
    }
  }
}
