/** Exponential backoff: the delay before the next attempt after failures in a row. */

/** More doublings than any cap needs; keeps the power finite. */
const MAX_DOUBLINGS = 20;

export interface Backoff {
  readonly firstMs: number;
  readonly maxMs: number;
}

/** `failures` counts from 1. Doubles with each failure, up to `maxMs`. */
export function backoffMs(failures: number, { firstMs, maxMs }: Backoff): number {
  return Math.min(firstMs * 2 ** Math.min(Math.max(failures - 1, 0), MAX_DOUBLINGS), maxMs);
}
