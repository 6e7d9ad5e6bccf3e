import assert from "node:assert/strict";
import { test } from "node:test";
import { countFailures, isWorthWaiting, restartDelayMs } from "./restart-policy.ts";

test("`restartDelayMs()` doubles up to a limit when failures follow each other", () => {
  const delays = [1, 2, 3, 5, 9, 10, 1000].map(restartDelayMs);
  assert.deepEqual(delays, [100, 200, 400, 1600, 25_600, 30_000, 30_000]);
});

test("`countFailures()` starts anew when the process had run for a minute", () => {
  assert.deepEqual([countFailures(0, 0), countFailures(4, 59_999), countFailures(4, 60_000)], [1, 5, 1]);
});

test("`isWorthWaiting()` says no when the restart is more than two seconds away", () => {
  assert.deepEqual([isWorthWaiting(100), isWorthWaiting(2000), isWorthWaiting(2001)], [true, true, false]);
});
