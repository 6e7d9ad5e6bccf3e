/** Times of one generation over a stream. */

export interface Generation {
  readonly firstTokenMs: number;
  readonly totalMs: number;
  readonly numTokens: number;
}

/** Notes the arrival of each token; one response carries one token. */
export class Arrivals {
  readonly #startMs = performance.now();
  #firstTokenMs = 0;
  #numTokens = 0;

  arrived(): void {
    if (this.#numTokens++ === 0) this.#firstTokenMs = performance.now() - this.#startMs;
  }

  end(): Generation {
    if (this.#numTokens === 0) throw new Error("a generation ended without a token");
    const totalMs = performance.now() - this.#startMs;
    return { firstTokenMs: this.#firstTokenMs, totalMs, numTokens: this.#numTokens };
  }
}
