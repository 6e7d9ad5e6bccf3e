import assert from "node:assert/strict";
import { test } from "node:test";
import { normalQuantile } from "./normal-quantile.ts";

test("normalQuantile() gives the known quantiles", () => {
  for (const [share, expected] of [
    [0.5, 0],
    [0.95, 1.6448536269514722],
    [0.975, 1.959963984540054],
    [0.999, 3.090232306167813],
    [0.1, -1.2815515655446004],
  ] as const)
    assert.ok(Math.abs(normalQuantile(share) - expected) < 1e-9, String(share));
});

test("normalQuantile() refuses what is no share", () => {
  for (const share of [0, 1, -1, Number.NaN]) assert.throws(() => normalQuantile(share), /between 0 and 1/);
});
