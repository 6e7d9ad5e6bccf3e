/**
 * Tells whether the event loop has turned since some moment. A request that fails before it has turned was refused when
 * it was handed over; later it failed while it was served. Clients see the difference in the content type.
 */
export class LoopTurn {
  #turn = 0;
  #isArmed = false;
  readonly #advance = (): void => {
    this.#turn++;
    this.#isArmed = false;
  };

  /** The number of this turn. One immediate serves all who ask within it. */
  now(): number {
    if (!this.#isArmed) {
      this.#isArmed = true;
      setImmediate(this.#advance);
    }
    return this.#turn;
  }

  hasTurned(since: number): boolean {
    return this.#turn !== since;
  }
}
