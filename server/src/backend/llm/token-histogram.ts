/** How many tokens requests had, in the buckets that TensorRT-LLM publishes. */
import type { MetricSample } from "../../observe/metrics.ts";

const BOUNDS = [10, 50, 100, 500, 1000] as const;

export class TokenHistogram {
  /** Observations at most as large as each bound; the last stands for +Inf. */
  readonly #counts = new Array<number>(BOUNDS.length + 1).fill(0);
  #sum = 0;

  observe(numTokens: number): void {
    this.#sum += numTokens;
    for (let i = 0; i < this.#counts.length; i++) {
      if (numTokens <= (BOUNDS[i] ?? Number.POSITIVE_INFINITY)) this.#counts[i] = (this.#counts[i] ?? 0) + 1;
    }
  }

  *samples(labels: Readonly<Record<string, string>>): Iterable<MetricSample> {
    for (const [i, value] of this.#counts.entries()) {
      yield { suffix: "_bucket", labels: { ...labels, le: BOUNDS[i]?.toString() ?? "+Inf" }, value };
    }
    yield { suffix: "_sum", labels, value: this.#sum };
    yield { suffix: "_count", labels, value: this.#counts.at(-1) ?? 0 };
  }
}
