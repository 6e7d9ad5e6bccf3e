import assert from "node:assert/strict";
import { test } from "node:test";
import { LatencyObserver } from "./latency-observer.ts";

test("firstResponses() counts cumulatively, bounds included, the rest under Infinity", () => {
  const latencies = new LatencyObserver({ summaries: false, firstResponseBucketsMs: [100, 500] });
  for (const ms of [1, 100, 101, 500, 501]) latencies.firstResponse(ms);
  const { cumulative, count, sumMs } = latencies.firstResponses();
  assert.deepEqual(cumulative, [
    [100, 2],
    [500, 4],
    [Number.POSITIVE_INFINITY, 5],
  ]);
  assert.deepEqual([count, sumMs], [5, 1203]);
});

test("succeeded() splits an execution into its parts, in microseconds", () => {
  const latencies = new LatencyObserver({ summaries: true, firstResponseBucketsMs: [] });
  latencies.succeeded(10, 2, { startMs: 100, computeStartMs: 101, computeEndMs: 104, endMs: 104.5 });
  const sums = [...latencies.summaries].map(([name, summary]) => [name, summary.sum]);
  assert.deepEqual(sums, [
    ["request", 10_000],
    ["queue", 2000],
    ["compute_input", 1000],
    ["compute_infer", 3000],
    ["compute_output", 500],
  ]);
});
