import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoadReport } from "../load/load-messages.ts";
import { ExchangeLog, summarizeWindows } from "./exchange-log.ts";
import { summarize } from "./percentiles.ts";
import { pairedRatio } from "./ratio.ts";
import { isStable } from "./stability.ts";

test("summarize() gives what numpy gives", () => {
  const { mean, deviation, min, max, percentiles } = summarize([10, 1, 4, 3], [50, 90, 100]);
  assert.deepEqual({ mean, min, max }, { mean: 4.5, min: 1, max: 10 });
  assert.ok(Math.abs(deviation - 3.872_983_346_2) < 1e-9);
  assert.deepEqual(
    [...percentiles].map(([each, value]) => [each, Number(value.toFixed(9))]),
    [
      [50, 3.5],
      [90, 8.2],
      [100, 10],
    ],
  );
});

test("isStable() needs three windows that agree in rate and in latency", () => {
  const point = (perSecond: number, latency: number): { perSecond: number; latency: number } => ({
    perSecond,
    latency,
  });
  assert.equal(isStable([point(100, 1), point(100, 1)], 10), false);
  assert.equal(isStable([point(5, 9), point(100, 1), point(109, 1), point(105, 1.05)], 10), true);
  assert.equal(isStable([point(100, 1), point(111, 1), point(105, 1)], 10), false);
  assert.equal(isStable([point(100, 1), point(100, 1.2), point(100, 1)], 10), false);
  assert.equal(isStable([point(0, 1), point(0, 1), point(0, 1)], 10), false);
});

test("pairedRatio() covers the ratio, and is as wide as the pairs differ", () => {
  const even = pairedRatio([
    [100, 120],
    [50, 60],
    [10, 12],
  ]);
  for (const value of [even.ratio, even.low, even.high]) assert.ok(Math.abs(value - 1.2) < 1e-9);
  // Logarithms 0 and 0.2: mean 0.1, standard error 0.1, t(1) = 12.706.
  const wide = pairedRatio([
    [1, 1],
    [1, Math.exp(0.2)],
  ]);
  assert.ok(Math.abs(Math.log(wide.high) - (0.1 + 12.706 * 0.1)) < 1e-9);
  assert.ok(Math.abs(Math.log(wide.low) - (0.1 - 12.706 * 0.1)) < 1e-9);
  assert.throws(() => pairedRatio([[1, 1]]), RangeError);
});

test("ExchangeLog.take() counts what ended within the window, failures apart", () => {
  const log = new ExchangeLog();
  const report = (exchanges: number[]): LoadReport => ({ exchanges: Float64Array.from(exchanges) }) as LoadReport;
  log.add(report([0, 9, 0, 5, 10, 0, 8, 12, 1]));
  log.add(report([9, 19, 0, 15, 20, 0]));
  const window = log.take(10, 20);
  assert.deepEqual(window.latenciesMs, [5, 10]);
  assert.equal(window.numFailed, 1);
  assert.deepEqual(log.take(20, 30).latenciesMs, [5]);
  const { requestsPerSecond, count } = summarizeWindows([window], [50]);
  assert.deepEqual({ requestsPerSecond, count }, { requestsPerSecond: 200, count: 2 });
});
