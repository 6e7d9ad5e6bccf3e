/** The share of one request in the byte budget of all bodies. Source: own design. */
import { ServerError } from "../core/server-error.ts";
import type { BodyBudget } from "./body-budget.ts";

export class HeldBytes {
  readonly #budget: BodyBudget;
  #numBytes = 0;

  constructor(budget: BodyBudget) {
    this.#budget = budget;
  }

  /** @throws ServerError unavailable when it is too much */
  hold(numBytes: number): void {
    if (!this.#budget.take(numBytes)) {
      throw new ServerError(
        "unavailable",
        `requests in flight hold the ${this.#budget.maxBytes} bytes that all bodies together may; try again later`,
      );
    }
    this.#numBytes += numBytes;
  }

  /** A part of what is held is gone earlier. */
  giveBack(numBytes: number): void {
    const given = Math.min(numBytes, this.#numBytes);
    this.#budget.give(given);
    this.#numBytes -= given;
  }

  /** The answer is sent, or the client is gone. */
  release(): void {
    this.#budget.give(this.#numBytes);
    this.#numBytes = 0;
  }
}
