import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { SlidingSummary } from "./sliding-summary.ts";

test("quantile() is within one per cent of the exact quantile", () => {
  const summary = new SlidingSummary(0);
  for (let value = 1; value <= 10_000; value += 1) summary.observe(value, 0);
  for (const q of [0.5, 0.9, 0.99, 0.999]) {
    const error = Math.abs(summary.quantile(q, 0) / (q * 10_000) - 1);
    assert.equal(error < 0.01, true, `quantile ${q} is off by ${error}`);
  }
  assert.deepEqual([summary.count, summary.sum], [10_000, 50_005_000]);
});

test("quantile() forgets what is older than a minute; count and sum do not", () => {
  const summary = new SlidingSummary(0);
  summary.observe(1000, 0);
  assert.equal(Math.round(summary.quantile(0.5, 47_000) / 10), 100);
  assert.equal(summary.quantile(0.5, 61_000), Number.NaN);
  summary.observe(10, 500_000);
  assert.equal(Math.round(summary.quantile(0.99, 500_000)), 10);
  assert.equal(summary.count, 2);
});

test("observe() takes any number that a clock can give", () => {
  const summary = new SlidingSummary(0);
  for (const value of [0, -1, 0.5, 1e30, Number.NaN]) summary.observe(value, 0);
  assert.equal(summary.count, 5);
  assert.equal(summary.quantile(0.1, 0), 0);
});

test("a summary has no buckets before its first observation", () => {
  const bytes = (summaries: readonly SlidingSummary[]): number => {
    void summaries;
    return process.memoryUsage().arrayBuffers;
  };
  const before = bytes([]);
  const summaries = Array.from({ length: 1000 }, () => new SlidingSummary(0));
  assert.ok(bytes(summaries) - before < 1024 * 1024);
  assert.deepEqual(summaries[0]?.quantiles([0.5, 0.9], 1), [Number.NaN, Number.NaN]);
});
