import assert from "node:assert/strict";
import { test } from "node:test";
import { RunPolicy, SYNC_LIMIT_US } from "./run-policy.ts";

const BYTES = 64;

test("maySync() keeps an unknown model off the event loop", () => {
  const policy = new RunPolicy();
  assert.equal(policy.maySync(BYTES), false);
  policy.ranAsync(BYTES, 50_000);
  assert.equal(policy.maySync(BYTES), false);
});

test("maySync() tries a run that came back soon, and stays on the loop while runs are short", () => {
  const policy = new RunPolicy();
  policy.ranAsync(BYTES, 200);
  assert.equal(policy.maySync(BYTES), true);
  policy.ranSync(BYTES, 5);
  for (let run = 0; run < 100; run++) {
    assert.equal(policy.maySync(BYTES), true);
    policy.ranSync(BYTES, SYNC_LIMIT_US);
  }
});

test("maySync() forgives a few runs that the system held up, not ten", () => {
  const policy = new RunPolicy();
  policy.ranAsync(BYTES, 200);
  policy.ranSync(BYTES, 5);
  for (let run = 0; run < 3; run++) policy.ranSync(BYTES, 1_000_000);
  assert.equal(policy.maySync(BYTES), true);
  for (let run = 0; run < 7; run++) policy.ranSync(BYTES, 1_000_000);
  assert.equal(policy.maySync(BYTES), false);
});

test("maySync() forgets slow runs after many short ones", () => {
  const policy = new RunPolicy();
  policy.ranAsync(BYTES, 200);
  const slowDown = (): number => {
    while (policy.maySync(BYTES)) policy.ranSync(BYTES, 1_000_000);
    let pause = 1;
    while (!policy.maySync(BYTES)) pause++;
    return pause;
  };
  assert.deepEqual([slowDown(), slowDown()], [64, 128]);
  for (let run = 0; run < 256; run++) policy.ranSync(BYTES, 5);
  assert.equal(slowDown(), 64);
});

test("maySync() tries again ever more rarely when a model is too slow", () => {
  const policy = new RunPolicy();
  policy.ranAsync(BYTES, 500);
  const pauses: number[] = [];
  for (let round = 0; round < 3; round++) {
    let pause = 0;
    while (!policy.maySync(BYTES)) pause++;
    pauses.push(pause);
    policy.ranSync(BYTES, 400);
  }
  assert.deepEqual(pauses, [0, 64, 128]);
});

test("maySync() judges small and large inputs apart", () => {
  const policy = new RunPolicy();
  policy.ranAsync(BYTES, 100);
  policy.ranSync(BYTES, 5);
  assert.equal(policy.maySync(BYTES + 1), true);
  assert.equal(policy.maySync(BYTES * 1000), false);
  assert.equal(policy.maySync(0), false);
});
