/** When a row is warm: connections are open, compilers have done their work, and the rate does not rise any more. Pure. */

/** Windows that must agree. */
const WINDOWS = 4;
/** Largest difference of two of them, relative to the smaller one. */
const TOLERANCE = 0.1;

/** `rates`: requests per second of successive windows of one length. The last one must not be the best of a rise. */
export function isSteady(rates: readonly number[]): boolean {
  const last = rates.slice(-WINDOWS);
  const least = Math.min(...last);
  return last.length === WINDOWS && least > 0 && Math.max(...last) <= least * (1 + TOLERANCE);
}
