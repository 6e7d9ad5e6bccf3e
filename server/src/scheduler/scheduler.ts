/** Interface between a model version and its scheduler. */
import type { ModelInstance } from "../backend/backend.ts";
import type { RequestOrigin } from "../core/infer-request.ts";
import type { Tensor } from "../core/tensor.ts";
import type { ExecutionTiming } from "./execution-timing.ts";
import type { ScheduledRequest } from "./scheduled-request.ts";

/** An instance that a change of the instances takes away. */
export interface LeavingInstance {
  readonly instance: ModelInstance;
  /** Resolves when no request needs it any more. */
  readonly idle: Promise<void>;
}

export interface Scheduler {
  /**
   * Takes ownership of a validated request, which will end exactly once. @throws ServerError unavailable when it is
   * refused (queue full, stopping)
   */
  enqueue(request: ScheduledRequest): void;
  /**
   * The outputs of a request of one row that nobody could cancel or wait for, counted as any other. Undefined: an instance
   * cannot answer in the call. Inputs must be valid. @throws ServerError of the model
   */
  readonly runNow?:
    | ((
        inputs: readonly Tensor[],
        origin: RequestOrigin,
        onTiming: (timing: ExecutionTiming) => void,
      ) => readonly Tensor[] | undefined)
    | undefined;
  /** Requests that have been accepted and have not ended. */
  readonly inFlight: number;
  /**
   * Replaces the instances and returns the removed ones. Sequences stay where they are until they end. Absent when instances
   * cannot change while requests run.
   */
  readonly resize?: ((instances: readonly ModelInstance[]) => readonly LeavingInstance[]) | undefined;
  /** Refuses new requests from now on; resolves when the accepted ones have ended. */
  drain(): Promise<void>;
}
