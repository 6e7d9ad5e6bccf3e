/** Random loads, the same ones every time: the soak run goes through many more. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { testSize } from "../support/long-tests.ts";
import { NO_FIGURES, runSchedule } from "./run-schedule.ts";
import { createSchedule } from "./schedule.ts";

const NUM_SCHEDULES = testSize(1000, 5000);

test("an engine gives each request its own output under random loads, loses no block and lets nobody wait for ever", async (t) => {
  const figures = { ...NO_FIGURES };
  for (let seed = 1; seed <= NUM_SCHEDULES; seed++) await runSchedule(createSchedule(seed), figures);
  t.diagnostic(JSON.stringify(figures));
  // Loads that never came near a limit would prove nothing.
  assert.ok(figures.preemptions > NUM_SCHEDULES / 4);
  assert.ok(figures.reusedBlocks > NUM_SCHEDULES);
  assert.ok(figures.acceptedDraftTokens > NUM_SCHEDULES);
  assert.ok(figures.draftTokens > 1.5 * figures.acceptedDraftTokens);
  assert.ok(figures.cancelled > NUM_SCHEDULES / 4);
  assert.ok(figures.refused < figures.requests / 10);
});

/** Loads that found faults once. */
const FAULTS: readonly (readonly [seed: number, what: string])[] = [
  [1_023_875, "blocks run out while one beam waits for another that has none"],
];

for (const [seed, what] of FAULTS) {
  test(`an engine goes on when ${what}`, () => runSchedule(createSchedule(seed), { ...NO_FIGURES }));
}
