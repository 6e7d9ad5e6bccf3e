/** Measured times of steps on a GPU. */

/** Time of the steps so far, by phase. */
export interface CudaStepTimings {
  numSteps: number;
  /** Checking, packing, enqueueing: on the event loop. */
  hostMs: number;
  /** From there, or from the end of the step ahead, until the results are here. */
  waitMs: number;
  /** Steps begun behind another, and how long the device had nothing to do before those: its own measure. */
  numBehind: number;
  idleMs: number;
}
