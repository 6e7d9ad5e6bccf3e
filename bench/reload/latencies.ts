/** Latencies of requests and what matters of them: the middle, the slow ones, the slowest, and how many had no good answer. */

export class Latencies {
  readonly #ms: number[] = [];
  #numFailed = 0;

  add(ms: number, isGood: boolean): void {
    this.#ms.push(ms);
    if (!isGood) this.#numFailed += 1;
  }

  /** Requests, failed, p50, p99, p99.9, maximum. */
  cells(): string[] {
    const sorted = [...this.#ms].sort((a, b) => a - b);
    const quantile = (q: number): string => (sorted[Math.floor(q * (sorted.length - 1))] ?? 0).toFixed(1);
    return [String(sorted.length), String(this.#numFailed), ...[0.5, 0.99, 0.999, 1].map(quantile)];
  }
}
