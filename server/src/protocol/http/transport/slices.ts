/**
 * Runs work given as a generator: at once when it is small, over several turns of the event loop when it is large.
 * Source: own design.
 */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { CallLifetime } from "../http-call.ts";
import { ClientGone } from "./read-body.ts";

/** Runs to the end without a pause. */
export function runAtOnce<T>(work: Generator<undefined, T>): T {
  let step = work.next();
  while (step.done !== true) step = work.next();
  return step.value;
}

/** Lets the event loop turn at every pause, so that other requests are served in between. @throws ClientGone */
export async function runInTurns<T>(work: Generator<undefined, T>, call?: CallLifetime): Promise<T> {
  let step = work.next();
  while (step.done !== true) {
    await nextTurn();
    if (call?.isCancelled === true) throw new ClientGone();
    step = work.next();
  }
  return step.value;
}
