/** Common part of all load generators: counts, latencies, the end. Knows no protocol. */

export const LOCAL_HOST = "127.0.0.1";

/** Latencies kept of one run; later ones replace none. */
const MAX_SAMPLES = 200_000;

/** A number of clients, each with one request under way at any time, until `stop()`. */
export interface Load {
  readonly tally: Tally;
  /** Ends every connection. */
  stop(): void;
}

export class Tally {
  /** Requests answered well since the last `reset()`. */
  completed = 0;
  #latenciesMs = new Float64Array(MAX_SAMPLES);
  #failure: Error | undefined;

  answered(startMs: number): void {
    if (this.completed < MAX_SAMPLES) this.#latenciesMs[this.completed] = performance.now() - startMs;
    this.completed++;
  }

  /** The first failure counts: a run with one has no figures. */
  failed(error: Error): void {
    this.#failure ??= error;
  }

  reset(): void {
    this.completed = 0;
  }

  expectNoFailure(): void {
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** Percentile of the latencies since `reset()`, in microseconds. */
  percentileUs(share: number): number {
    const count = Math.min(this.completed, MAX_SAMPLES);
    if (count === 0) return Number.NaN;
    const sorted = this.#latenciesMs.slice(0, count).sort();
    return (sorted[Math.min(count - 1, Math.floor(count * share))] ?? 0) * 1000;
  }
}
