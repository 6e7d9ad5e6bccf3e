/** Ratio of two servers that are measured in turns, with a confidence interval from the pairs. Pure. */
import { meanInterval } from "./interval.ts";

export interface Ratio {
  /** Geometric mean of second / first. */
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
}

/** Each pair holds the same figure of both in one round. The logarithms of ratios are taken as normal. At least two pairs. */
export function pairedRatio(pairs: readonly (readonly [first: number, second: number])[]): Ratio {
  if (pairs.length < 2) throw new RangeError(`${pairs.length} rounds, expected at least 2`);
  const logs = pairs.map(([first, second]) => Math.log(second / first));
  const { mean, half } = meanInterval(logs);
  return { ratio: Math.exp(mean), low: Math.exp(mean - half), high: Math.exp(mean + half) };
}
