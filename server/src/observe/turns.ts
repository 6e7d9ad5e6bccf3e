/** Long work on the event loop, cut into turns: requests are served in between. */

/** How long other work may wait for a turn of this. */
const MAX_TURN_MS = 2;

export class Turns {
  readonly #maxMs: number;
  #startMs = performance.now();

  constructor(maxMs: number = MAX_TURN_MS) {
    this.#maxMs = maxMs;
  }

  /** The work has held the event loop for long enough: `await next()` before it goes on. */
  get isOver(): boolean {
    return performance.now() - this.#startMs >= this.#maxMs;
  }

  async next(): Promise<void> {
    await new Promise<void>((resolve) => setImmediate(resolve));
    this.#startMs = performance.now();
  }
}
