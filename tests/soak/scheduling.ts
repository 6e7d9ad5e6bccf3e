/** Random schedules of batchers, sequences, ensembles, cache and rate limiter: a million of them where a test has thousands. */
import { checkSchedules } from "../scheduling/check-schedules.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

const NUM_SCHEDULES = 1_000_000;
/** Seeds of a run follow each other; runs with other seeds see other schedules. */
const SEEDS_PER_RUN = 1_000_000;

export const schedulingSoak: Soak = { name: "scheduling", run };

async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  return { ...(await checkSchedules({ firstSeed: seed * SEEDS_PER_RUN, count: NUM_SCHEDULES, deadlineMs })) };
}
