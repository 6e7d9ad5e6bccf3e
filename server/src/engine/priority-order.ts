/**
 * The order in which requests are scheduled: by arrival time, where a lower priority counts as a later arrival by a bounded
 * time. A key never changes, so no request starves. Pure numbers.
 */

/** Delay, in ms, that priority 0 has against priority 1. */
export const PRIORITY_SPAN_MS = 60_000;

export interface Ordered {
  /** Lower keys are scheduled first. */
  readonly orderKey: number;
}

/** `priority` is 0 to 1; 1 is the most urgent. */
export function orderKey(arrivalMs: number, priority: number): number {
  return arrivalMs + (1 - priority) * PRIORITY_SPAN_MS;
}

/** Inserts into a list sorted by key, after equal keys. */
export function insertAfterEqual<T extends Ordered>(list: T[], item: T): void {
  let at = list.length;
  while (at > 0 && (list[at - 1]?.orderKey ?? 0) > item.orderKey) at -= 1;
  list.splice(at, 0, item);
}

/** Inserts into a list sorted by key, before equal keys. */
export function insertBeforeEqual<T extends Ordered>(list: T[], item: T): void {
  const at = list.findIndex(({ orderKey }) => orderKey >= item.orderKey);
  list.splice(at < 0 ? list.length : at, 0, item);
}
