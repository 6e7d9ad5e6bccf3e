/** Interface between a model version and its scheduler. */
import type { ModelInstance } from "../backend/backend.ts";
import type { ScheduledRequest } from "./scheduled-request.ts";

export interface Scheduler {
  /**
   * Takes ownership of a validated request, which will end exactly once. @throws ServerError unavailable when it is
   * refused (queue full, stopping)
   */
  enqueue(request: ScheduledRequest): void;
  /** Requests that have been accepted and have not ended. */
  readonly inFlight: number;
  /**
   * Replaces the instances; resolves when removed ones are idle. Absent when instances cannot change while requests
   * run.
   */
  readonly resize?: ((instances: readonly ModelInstance[]) => Promise<void>) | undefined;
  /** Refuses new requests from now on; resolves when the accepted ones have ended. */
  drain(): Promise<void>;
}
