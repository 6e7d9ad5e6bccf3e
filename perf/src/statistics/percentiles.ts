/** Summaries of samples. Pure. */

export interface Summary {
  readonly count: number;
  readonly mean: number;
  /** Standard deviation of the sample. */
  readonly deviation: number;
  readonly min: number;
  readonly max: number;
  /** By the percentile asked for: 50, 99.9. */
  readonly percentiles: ReadonlyMap<number, number>;
}

export const USUAL_PERCENTILES: readonly number[] = [50, 90, 95, 99];

/** NaN for everything but the count when there are no samples. */
export function summarize(samples: Iterable<number>, percentiles: readonly number[] = USUAL_PERCENTILES): Summary {
  const sorted = Float64Array.from(samples).sort();
  const count = sorted.length;
  const mean = sorted.reduce((sum, value) => sum + value, 0) / count;
  const squares = sorted.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    count,
    mean,
    deviation: count < 2 ? 0 : Math.sqrt(squares / (count - 1)),
    min: sorted[0] ?? Number.NaN,
    max: sorted[count - 1] ?? Number.NaN,
    percentiles: new Map(percentiles.map((each) => [each, percentileOf(sorted, each)])),
  };
}

/** Linear interpolation between the nearest ranks, as numpy does by default. `sorted` does not fall. */
export function percentileOf(sorted: Float64Array, percentile: number): number {
  const rank = ((sorted.length - 1) * percentile) / 100;
  const below = sorted[Math.floor(rank)] ?? Number.NaN;
  const above = sorted[Math.ceil(rank)] ?? Number.NaN;
  return below + (above - below) * (rank - Math.floor(rank));
}
