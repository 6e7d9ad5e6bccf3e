import assert from "node:assert/strict";
import test from "node:test";
import { durationText, rateHeaders, retryAfter } from "./rate-headers.ts";

test("durations are written as Go writes them", () => {
  const cases = {
    "0s": 0,
    "120ms": 120,
    "1s": 1000,
    "1.5s": 1500,
    "59.999s": 59_999,
    "1m0s": 60_000,
    "1h1m1s": 3_661_000,
  };
  for (const [text, ms] of Object.entries(cases)) assert.equal(durationText(ms), text);
});

test("seconds to wait are rounded up and at least one", () => {
  assert.deepEqual([retryAfter(1), retryAfter(1000), retryAfter(1001)], ["1", "1", "2"]);
});

test("only limits that hold have headers", () => {
  assert.deepEqual(rateHeaders({ requests: undefined, tokens: { limit: 10, remaining: 4, resetMs: 36_000 } }), [
    ["x-ratelimit-limit-tokens", "10"],
    ["x-ratelimit-remaining-tokens", "4"],
    ["x-ratelimit-reset-tokens", "36s"],
  ]);
});
