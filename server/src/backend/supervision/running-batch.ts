/** The batch that an instance's process or thread runs, and the notification of its end. */
import type { ServerError } from "../../core/server-error.ts";
import type { Batch } from "../backend.ts";

export interface RunningBatch {
  readonly id: number;
  readonly batch: Batch;
  readonly keys: readonly number[];
  readonly resolve: () => void;
  readonly reject: (error: ServerError) => void;
}
