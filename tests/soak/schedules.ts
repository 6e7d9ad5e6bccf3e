/** The random loads of an engine, many more of them than a test has time for. */
import { NO_FIGURES, runSchedule } from "../schedules/run-schedule.ts";
import { createSchedule } from "../schedules/schedule.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_SCHEDULES = 100_000;
/** Seeds of a run follow each other; runs with other seeds see other loads. */
const SEEDS_PER_RUN = 1_000_000;

export const schedulesSoak: Soak = { name: "schedules", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const figures = { ...NO_FIGURES };
  let schedules = 0;
  for (; schedules < NUM_SCHEDULES && performance.now() < deadlineMs; schedules += 1) {
    await runSchedule(createSchedule(seed * SEEDS_PER_RUN + schedules), figures);
  }
  return { schedules, ...figures };
}
