/** The hold of the direct strategy: requests in the slots of all instances are counted together, and those of the backlog. */
import type { StartHold } from "../start-hold.ts";

export class DirectHold {
  readonly #hold: StartHold;
  #queued = 0;
  #backlog = 0;

  constructor(hold: StartHold) {
    this.#hold = hold;
  }

  get isOver(): boolean {
    return this.#queued >= this.#hold.queued && this.#backlog >= this.#hold.backlog;
  }

  /** A request came, of a sequence that has a slot or waits for one. True when the hold ends with it. */
  count(waitsForSlot: boolean): boolean {
    if (this.isOver) return false;
    if (waitsForSlot) this.#backlog += 1;
    else this.#queued += 1;
    return this.isOver;
  }
}
