/** A model's own say in which requests share a batch, beside sizes and shapes. Asked by scheduler/, given from outside. */
import type { InferRequest } from "./infer-request.ts";

/** Of one batch that is being formed. Never throws. */
export type BatchJudge = (request: InferRequest, batchSize: number) => boolean;

export interface BatchStrategy {
  /**
   * A batch begins. The judge is asked about each request in turn, the first one too, which goes in whatever it says; the
   * first that it refuses ends the batch.
   */
  startBatch(): BatchJudge;
}
