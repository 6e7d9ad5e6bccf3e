/**
 * Batches requests that arrive in one event loop turn. A single request passes at once. When others follow in the same
 * turn, they wait for its end, some microseconds later. While turns bring several, all wait. Without it, an instance
 * that answers synchronously would never see two requests together.
 */
import type { Clock } from "./clock.ts";

export class EventLoopGate {
  readonly #clock: Clock;
  readonly #onTurn: () => void;
  readonly #end = (): void => this.#ended();
  #count = 0;
  #isCrowded = false;
  #isHolding = false;

  /** `onTurn`: the turn is over, and some requests had to wait. */
  constructor(clock: Clock, onTurn: () => void) {
    this.#clock = clock;
    this.#onTurn = onTurn;
  }

  /** Call for each arriving request. False: wait for the end of the turn. */
  pass(): boolean {
    if (this.#count === 0) this.#clock.soon(this.#end);
    this.#count += 1;
    if (this.#count === 1 && !this.#isCrowded) return true;
    this.#isHolding = true;
    return false;
  }

  #ended(): void {
    const isHolding = this.#isHolding;
    this.#isCrowded = this.#count > 1;
    this.#count = 0;
    this.#isHolding = false;
    if (isHolding) this.#onTurn();
  }
}
