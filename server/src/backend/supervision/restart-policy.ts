/** Delay before a dead process is started again. Numbers only. */

import { backoffMs } from "../../core/backoff.ts";

const BACKOFF = { firstMs: 100, maxMs: 30_000 };
/** A process that ran this long was sound: its death starts a new count. */
const STABLE_MS = 60_000;
/** Requests wait for a restart that begins within this time; for a later one they are refused at once. */
const WORTH_WAITING_MS = 2_000;

/** Deaths in a row, after one more death. */
export function countFailures(failures: number, livedMs: number): number {
  return livedMs >= STABLE_MS ? 1 : failures + 1;
}

/** Doubles with every failure: a model that cannot start must not eat a processor. */
export function restartDelayMs(failures: number): number {
  return backoffMs(failures, BACKOFF);
}

export function isWorthWaiting(delayMs: number): boolean {
  return delayMs <= WORTH_WAITING_MS;
}
