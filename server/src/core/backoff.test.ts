import assert from "node:assert/strict";
import { test } from "node:test";
import { backoffMs } from "./backoff.ts";

test("backoffMs() doubles from the first delay up to the cap", () => {
  const backoff = { firstMs: 100, maxMs: 1000 };
  assert.deepEqual(
    [1, 2, 3, 4, 5, 6, 5000].map((failures) => backoffMs(failures, backoff)),
    [100, 200, 400, 800, 1000, 1000, 1000],
  );
});

test("backoffMs() without a failure is the first delay", () => {
  assert.equal(backoffMs(0, { firstMs: 7, maxMs: 1000 }), 7);
});
