/** Confidence intervals of means and shares. Pure. */

/** Two-sided 95 % quantiles of Student's t by degrees of freedom, from 1 on (Abramowitz and Stegun, table 26.10). */
const T_95: readonly number[] = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const T_95_LIMIT = 1.96;

export interface MeanInterval {
  readonly mean: number;
  /** Half of the 95 % interval; infinite for a single value. */
  readonly half: number;
}

export function meanInterval(values: readonly number[]): MeanInterval {
  const mean = values.reduce((sum, each) => sum + each, 0) / values.length;
  if (values.length < 2) return { mean, half: Number.POSITIVE_INFINITY };
  const variance = values.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (values.length - 1);
  return { mean, half: (T_95[values.length - 2] ?? T_95_LIMIT) * Math.sqrt(variance / values.length) };
}

/** Lower end of the score interval of a share (Wilson 1927). `z`: quantile of the normal distribution. */
export function shareLowerBound(hits: number, count: number, z: number): number {
  if (count === 0) return 0;
  const share = hits / count;
  const square = z ** 2 / count;
  const spread = z * Math.sqrt((share * (1 - share) + square / 4) / count);
  return (share + square / 2 - spread) / (1 + square);
}
