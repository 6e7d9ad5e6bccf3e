/**
 * Tells whether the event loop has turned since a moment. A request that fails before that was refused when it was
 * submitted; later, it failed while running. Triton's answers differ in the content type. Source: own design.
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
