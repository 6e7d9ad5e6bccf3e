/** When a measurement is steady (perf_analyzer, "Measurement Modes"): the last three windows agree. Pure. */

export interface StabilityPoint {
  readonly perSecond: number;
  /** The mean, or the percentile that counts. */
  readonly latency: number;
}

/** Windows that must agree, and whose requests make the result. */
export const STABLE_WINDOWS = 3;

/** `percentage`: the largest of the last windows is at most so much above the smallest, in rate and in latency. */
export function isStable(windows: readonly StabilityPoint[], percentage: number): boolean {
  const last = windows.slice(-STABLE_WINDOWS);
  if (last.length < STABLE_WINDOWS) return false;
  const agree = (values: readonly number[]): boolean => {
    const min = Math.min(...values);
    return min > 0 && Math.max(...values) / min <= 1 + percentage / 100;
  };
  return agree(last.map(({ perSecond }) => perSecond)) && agree(last.map(({ latency }) => latency));
}
