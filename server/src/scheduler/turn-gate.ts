/**
 * Lets requests that come in one turn of the event loop go together. A lone request passes at once; when others come behind it
 * in the same turn they wait for its end, some microseconds later, and as long as turns bring several, all do. Without it an
 * instance that is fast enough to answer on the spot would never see two requests at a time, however many clients there are.
 */
import type { Clock } from "./clock.ts";

export class TurnGate {
  readonly #clock: Clock;
  readonly #onTurn: () => void;
  readonly #end = (): void => this.#ended();
  #count = 0;
  #isCrowded = false;
  #isHolding = false;

  /** `onTurn`: the turn is over, and some did not pass. */
  constructor(clock: Clock, onTurn: () => void) {
    this.#clock = clock;
    this.#onTurn = onTurn;
  }

  /** For each request that comes. False: wait for the end of the turn. */
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
