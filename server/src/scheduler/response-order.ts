/** Keeps the responses of requests in the order in which the requests were added. */
import type { ScheduledRequest } from "./scheduled-request.ts";

export class ResponseOrder {
  readonly #requests: ScheduledRequest[] = [];

  /** Before the request can have answered. */
  add(request: ScheduledRequest): void {
    if (this.#requests.push(request) > 1) request.hold();
  }

  /** The requests at the head that have ended leave, and the first that has not may answer freely. */
  ended(): void {
    while (this.#requests[0]?.ended === true) {
      this.#requests.shift()?.release();
      this.#requests[0]?.release();
    }
  }
}
