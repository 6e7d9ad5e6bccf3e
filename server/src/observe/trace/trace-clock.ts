/** Converts `performance.now()` to nanoseconds of the two clocks used in traces. */
import process from "node:process";

const NS_PER_MS = 1_000_000;

export interface TraceClock {
  /** The machine's monotonic clock, comparable with other programs. */
  steadyNs(atMs: number): bigint;
  /** Since the Unix epoch. */
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

/** Whole milliseconds separately: nanoseconds since 1970 exceed the safe integers. */
function toNs(ms: number): bigint {
  const whole = Math.floor(ms);
  return BigInt(whole) * BigInt(NS_PER_MS) + BigInt(Math.round((ms - whole) * NS_PER_MS));
}
