import assert from "node:assert/strict";
import { test } from "node:test";
import { backoffMs, DEFAULT_RETRY, isSafeToRetry, RetryBudget, retryPolicy } from "./call-policy.ts";
import { ClientError } from "./client-error.ts";

const FAILURES: readonly [what: string, error: ClientError, isSafe: boolean, isSafeIfIdempotent: boolean][] = [
  ["a refused connection", new ClientError("network", "x", { isUnsent: true }), true, true],
  ["a broken connection", new ClientError("network", "x"), false, true],
  ["429", new ClientError("server", "x", { status: 429 }), true, true],
  ["503", new ClientError("server", "x", { status: 503 }), true, true],
  ["502 of a proxy", new ClientError("server", "x", { status: 502 }), false, true],
  ["400", new ClientError("server", "x", { status: 400 }), false, false],
  ["500", new ClientError("server", "x", { status: 500 }), false, false],
  ["UNAVAILABLE", new ClientError("server", "x", { grpcStatus: 14 }), true, true],
  ["RESOURCE_EXHAUSTED", new ClientError("server", "x", { grpcStatus: 8 }), false, false],
  ["an expired limit", new ClientError("timeout", "x"), false, false],
  ["a broken response", new ClientError("protocol", "x"), false, false],
];
for (const [what, error, isSafe, isSafeIfIdempotent] of FAILURES) {
  test(`isSafeToRetry() decides for ${what}`, () => {
    assert.deepEqual([isSafeToRetry(error, false), isSafeToRetry(error, true)], [isSafe, isSafeIfIdempotent]);
  });
}

test("backoffMs() doubles its limit up to the largest, and obeys Retry-After", () => {
  const error = new ClientError("server", "x", { status: 503 });
  const policy = { maxAttempts: 9, initialBackoffMs: 100, maxBackoffMs: 350 };
  assert.deepEqual(
    [1, 2, 3, 4].map((attempt) => backoffMs(attempt, policy, error, 0.5)),
    [50, 100, 175, 175],
  );
  assert.equal(backoffMs(1, policy, new ClientError("server", "x", { status: 429, retryAfterMs: 3000 }), 0), 3000);
});

test("RetryBudget stops retries after half of its tokens, and successes bring them back", () => {
  const budget = new RetryBudget(4, 0.5);
  budget.failed();
  assert.equal(budget.allowsRetry, true);
  budget.failed();
  assert.equal(budget.allowsRetry, false);
  for (let k = 0; k < 10; k++) budget.failed();
  for (let k = 0; k < 4; k++) budget.succeeded();
  assert.equal(budget.allowsRetry, false);
  budget.succeeded();
  assert.equal(budget.allowsRetry, true);
});

test("retryPolicy() completes options and refuses what cannot be", () => {
  assert.deepEqual(retryPolicy({ maxAttempts: 5 }, DEFAULT_RETRY), { ...DEFAULT_RETRY, maxAttempts: 5 });
  assert.equal(retryPolicy(false, DEFAULT_RETRY).maxAttempts, 1);
  assert.throws(() => retryPolicy({ maxAttempts: 0 }, DEFAULT_RETRY), RangeError);
  assert.throws(() => retryPolicy({ initialBackoffMs: -1 }, DEFAULT_RETRY), RangeError);
});
