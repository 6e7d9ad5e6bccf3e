/** Accumulates differences between expected and actual values. Pure. */

export interface ErrorSum {
  readonly max: number;
  readonly mean: number;
  /** Mean magnitude of the expected values, for scale. */
  readonly meanSize: number;
  /** Cosine similarity of the two vectors. */
  readonly cosine: number;
}

export class ErrorTotals {
  #count = 0;
  #max = 0;
  #sum = 0;
  #size = 0;
  #dot = 0;
  #wantedSquares = 0;
  #gotSquares = 0;

  add(wanted: Float32Array, got: Float32Array): void {
    for (let index = 0; index < wanted.length; index++) {
      const [a, b] = [wanted[index] ?? 0, got[index] ?? Number.NaN];
      const difference = Math.abs(a - b);
      // NaN counts as the largest error, and Math.max propagates it.
      this.#max = Math.max(this.#max, difference);
      this.#sum += difference;
      this.#size += Math.abs(a);
      this.#dot += a * b;
      this.#wantedSquares += a * a;
      this.#gotSquares += b * b;
    }
    this.#count += wanted.length;
  }

  sum(): ErrorSum {
    const count = Math.max(1, this.#count);
    const lengths = Math.sqrt(this.#wantedSquares * this.#gotSquares);
    return {
      max: this.#max,
      mean: this.#sum / count,
      meanSize: this.#size / count,
      cosine: lengths === 0 ? 1 : this.#dot / lengths,
    };
  }
}
