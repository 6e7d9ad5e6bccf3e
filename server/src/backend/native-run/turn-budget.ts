/** Time that synchronous runs of all models together may take of one turn of the event loop. */

const BUDGET_US = 1_000;

export class TurnBudget {
  #leftUs = BUDGET_US;
  #isResetPending = false;

  isLeft(): boolean {
    return this.#leftUs > 0;
  }

  spend(us: number): void {
    this.#leftUs -= us;
    if (this.#isResetPending) return;
    this.#isResetPending = true;
    // Immediates come after the turn's I/O callbacks: what arrives later belongs to the next turn.
    setImmediate(() => {
      this.#isResetPending = false;
      this.#leftUs = BUDGET_US;
    });
  }
}
