import assert from "node:assert/strict";
import { test } from "node:test";
import { testSize } from "../support/long-tests.ts";
import { checkSchedules } from "./check-schedules.ts";

const SCHEDULES = testSize(600, 3000);

test(`schedulers keep their promises to every request in ${SCHEDULES} random schedules`, async () => {
  const figures = await checkSchedules({ firstSeed: 1, count: SCHEDULES, deadlineMs: Number.POSITIVE_INFINITY });
  // Every kind of end must have been seen, or the promises were not put to the test.
  for (const [name, count] of Object.entries(figures)) assert.ok(count > 0, `${name}: none`);
  const { requests, refused, answered, failed, cancelled, timedOut } = figures;
  assert.equal(answered + failed + cancelled + timedOut + refused, requests);
});
