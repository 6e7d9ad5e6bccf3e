/** Engine hosts and threads that end at random points under load. `npm run soak -- engine-faults typescript-faults` has 1,000 points each. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runEngineFaults } from "../support/engine-faults.ts";
import { testSize } from "../support/long-tests.ts";
import type { FaultTally } from "../support/process-faults.ts";
import { createRandom } from "../support/random.ts";
import { runTypescriptFaults } from "../support/typescript-faults.ts";

const NUM_POINTS = testSize(3, 30);
const isOver = (points: number): boolean => points >= NUM_POINTS;

function expectEnds({ points, answered, failed }: FaultTally, numAtOnce: number): void {
  assert.equal(points, NUM_POINTS);
  assert.ok(answered > 0);
  assert.ok(failed <= numAtOnce * NUM_POINTS, `${failed} requests failed at ${NUM_POINTS} points`);
}

test("an engine host that is killed at random points costs its started requests and no others", {
  timeout: 900_000,
}, async () => {
  expectEnds(await runEngineFaults(createRandom(6), isOver), 8);
});

test("a thread of a TypeScript model that ends at random points costs its started requests and no others", {
  timeout: 900_000,
}, async () => {
  expectEnds(await runTypescriptFaults(createRandom(6), isOver), 2);
});
