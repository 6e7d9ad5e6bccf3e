/** Ratio of two servers that are measured in turns, with a confidence interval from the pairs. Pure. */

export interface Ratio {
  /** Geometric mean of second / first. */
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

/** Two-sided 95 % quantiles of Student's t by degrees of freedom, from 1 on (Abramowitz and Stegun, table 26.10). */
const T_95: readonly number[] = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145, 2.131, 2.12, 2.11,
  2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048, 2.045, 2.042,
];
const T_95_LIMIT = 1.96;

/** Each pair holds the same figure of both in one round. The logarithms of ratios are taken as normal. At least two pairs. */
export function pairedRatio(pairs: readonly (readonly [first: number, second: number])[]): Ratio {
  if (pairs.length < 2) throw new RangeError(`${pairs.length} rounds, expected at least 2`);
  const logs = pairs.map(([first, second]) => Math.log(second / first));
  const mean = logs.reduce((sum, each) => sum + each, 0) / logs.length;
  const variance = logs.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (logs.length - 1);
  const half = (T_95[logs.length - 2] ?? T_95_LIMIT) * Math.sqrt(variance / logs.length);
  return { ratio: Math.exp(mean), low: Math.exp(mean - half), high: Math.exp(mean + half) };
}
