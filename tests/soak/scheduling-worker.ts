/** A share of the random schedules, on a thread of its own. */
import { parentPort, workerData } from "node:worker_threads";
import { checkSchedules } from "../scheduling/check-schedules.ts";

export interface Share {
  readonly firstSeed: number;
  readonly count: number;
  /** Each thread has a clock of its own. */
  readonly remainingMs: number;
}

const { firstSeed, count, remainingMs }: Share = workerData;
parentPort?.postMessage(await checkSchedules({ firstSeed, count, deadlineMs: performance.now() + remainingMs }));
