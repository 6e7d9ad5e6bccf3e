/**
 * A model's custom batching strategy, in addition to sizes and shapes (Triton's custom batching). Called by scheduler/.
 */
import type { InferRequest } from "./infer-request.ts";

/** State of one batch being formed. Never throws. */
export type BatchJudge = (request: InferRequest, batchSize: number) => boolean;

export interface BatchStrategy {
  /**
   * A batch begins. The judge is asked about each request in order. The first request is always accepted; the first
   * refused one ends the batch.
   */
  startBatch(): BatchJudge;
}
