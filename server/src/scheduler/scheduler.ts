/** The contract between a model version and its scheduler. */
import type { ModelInstance } from "../backend/backend.ts";
import type { ScheduledRequest } from "./scheduled-request.ts";

export interface Scheduler {
  /**
   * Takes a validated request over: from here on exactly one end reaches it, whatever happens.
   * @throws ServerError unavailable when it is not taken (queue full, stopping)
   */
  enqueue(request: ScheduledRequest): void;
  /** Requests that have been accepted and have not ended. */
  readonly inFlight: number;
  /**
   * From now on these instances, some of which may have been there before; resolves when those left out run no more.
   * Absent where instances cannot change while requests run.
   */
  readonly resize?: ((instances: readonly ModelInstance[]) => Promise<void>) | undefined;
  /** Refuses new requests from now on; resolves when the accepted ones have ended. */
  drain(): Promise<void>;
}
