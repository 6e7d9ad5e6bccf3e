/** From times of `performance.now()` to the nanoseconds of the two clocks that traces are written in. */
import process from "node:process";

const NS_PER_MS = 1_000_000;

export interface TraceClock {
  /** The steady clock of the machine, which other programs on it can compare with. */
  steadyNs(atMs: number): bigint;
  /** Since 1970. */
  unixNs(atMs: number): bigint;
}

export function createTraceClock(): TraceClock {
  const steadyOriginNs = process.hrtime.bigint() - toNs(performance.now());
  const unixOriginNs = toNs(performance.timeOrigin);
  return {
    steadyNs: (atMs) => steadyOriginNs + toNs(atMs),
    unixNs: (atMs) => unixOriginNs + toNs(atMs),
  };
}

/** Whole milliseconds apart from the rest: a time since 1970 in ns is beyond the safe integers. */
function toNs(ms: number): bigint {
  const whole = Math.floor(ms);
  return BigInt(whole) * BigInt(NS_PER_MS) + BigInt(Math.round((ms - whole) * NS_PER_MS));
}
