/** System-wide monotonic clock, so that times of different processes compare. */
export function nowNs(): number {
  return Number(process.hrtime.bigint());
}
