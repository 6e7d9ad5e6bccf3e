import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestRate } from "./request-rate.ts";

test("rates() divides by the time since the start while that is short, but never by less than a second", () => {
  const rate = new RequestRate(5000);
  rate.count(5010, false);
  assert.deepEqual(rate.rates(5020), { requestsPerSecond: 1, errorsPerSecond: 0 });
  rate.count(6900, true);
  assert.deepEqual(rate.rates(7000), { requestsPerSecond: 1, errorsPerSecond: 0.5 });
});

test("rates() forgets what is ten seconds old", () => {
  const rate = new RequestRate(0);
  for (let i = 0; i < 90; i++) rate.count(500, i % 9 === 0);
  assert.deepEqual(rate.rates(9000), { requestsPerSecond: 10, errorsPerSecond: 10 / 9 });
  assert.deepEqual(rate.rates(10_500), { requestsPerSecond: 0, errorsPerSecond: 0 });
  rate.count(10_600, false); // the slot of the first second, used again
  assert.ok(Math.abs(rate.rates(10_999).requestsPerSecond - 0.1) < 0.001);
});
