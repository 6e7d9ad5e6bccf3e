/** Findings of a run, and the common part of everything that watches one load of a model. */
import type { Batch } from "../../server/src/backend/backend.ts";
import type { ServerError } from "../../server/src/core/server-error.ts";
import type { ScheduledRequest } from "../../server/src/scheduler/scheduled-request.ts";
import type { PlayedInstance } from "./played-instance.ts";
import type { Ask } from "./scenario.ts";

/** Times that are nearer to each other than this may come in either order. */
export const NEAR_MS = 0.02;

export class Faults {
  readonly found: string[] = [];

  add(text: string): void {
    if (this.found.length < 5) this.found.push(text);
  }
}

/** Keeps the books of a scheduler from outside, by what the specification says. */
export interface Watch {
  /** Right before it is handed to the scheduler. `ask` is undefined for the step of an ensemble. */
  arriving(request: ScheduledRequest, ask: Ask | undefined): void;
  refused(request: ScheduledRequest, error: ServerError): void;
  started(instance: PlayedInstance, batch: Batch): void;
  /** Nothing more happens until time goes on. */
  settled(): void;
}
