/**
 * Who comes before whom: by time of arrival, requests of lower priority as if they had arrived later by a bounded time. A
 * rank never changes, and whoever comes later than that bound ranks behind: nobody is overtaken for ever. Pure numbers.
 */

/** A request of priority 0 ranks as if it had arrived that much later than one of priority 1. */
export const PRIORITY_SPAN_MS = 60_000;

export interface Ranked {
  /** Lower ones come first. */
  readonly rank: number;
}

/** Of a request of priority 0 to 1, 1 = the most urgent. */
export function rankOf(arrivalMs: number, priority: number): number {
  return arrivalMs + (1 - priority) * PRIORITY_SPAN_MS;
}

/** Into a list in order of rank, behind those of the same rank. */
export function insertBehind<T extends Ranked>(list: T[], item: T): void {
  let at = list.length;
  while (at > 0 && (list[at - 1]?.rank ?? 0) > item.rank) at -= 1;
  list.splice(at, 0, item);
}

/** The same, before those of the same rank. */
export function insertBefore<T extends Ranked>(list: T[], item: T): void {
  const at = list.findIndex(({ rank }) => rank >= item.rank);
  list.splice(at < 0 ? list.length : at, 0, item);
}
