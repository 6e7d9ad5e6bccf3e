/**
 * For tests of schedulers: the first batch of a model waits until a number of requests is queued, so that batches do not depend
 * on how fast the requests arrive. Source: core/src/dynamic_batch_scheduler.cc and sequence_batch_scheduler.cc of Triton,
 * TRITONSERVER_DELAY_SCHEDULER and TRITONSERVER_BACKLOG_DELAY_SCHEDULER.
 */
import type { Environment } from "../core/environment.ts";
import { invalidArgument } from "../core/server-error.ts";

export interface StartHold {
  /** Requests that a queue must have; 0: none. */
  readonly queued: number;
  /** Requests of sequences without a slot that must wait too; has no effect where `queued` is 0. */
  readonly backlog: number;
}

export const NO_HOLD: StartHold = Object.freeze({ queued: 0, backlog: 0 });

/** @throws ServerError when a variable is no whole number */
export function parseStartHold(environment: Environment): StartHold {
  const { TRITONSERVER_DELAY_SCHEDULER, TRITONSERVER_BACKLOG_DELAY_SCHEDULER } = environment;
  if (TRITONSERVER_DELAY_SCHEDULER === undefined && TRITONSERVER_BACKLOG_DELAY_SCHEDULER === undefined) return NO_HOLD;
  return {
    queued: parseCount("TRITONSERVER_DELAY_SCHEDULER", TRITONSERVER_DELAY_SCHEDULER),
    backlog: parseCount("TRITONSERVER_BACKLOG_DELAY_SCHEDULER", TRITONSERVER_BACKLOG_DELAY_SCHEDULER),
  };
}

function parseCount(name: string, text: string | undefined): number {
  if (text === undefined || text === "") return 0;
  if (!/^\d{1,9}$/.test(text)) {
    throw invalidArgument(`environment variable ${name}: expected a number of requests, got '${text}'`);
  }
  return Number(text);
}
