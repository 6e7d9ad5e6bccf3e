import assert from "node:assert/strict";
import { test } from "node:test";
import { Histogram } from "./histogram.ts";

test("samples() counts each observation in its bucket and all above it", () => {
  const histogram = new Histogram([1, 2.5, 10]);
  for (const value of [0, 1, 1.5, 2.5, 2.6, 11, 11]) histogram.observe(value);
  const samples = [...histogram.samples({ model: "m" })];
  assert.deepEqual(
    samples.map(({ suffix, labels, value }) => [suffix, labels.le, value]),
    [
      ["_bucket", "1", 2],
      ["_bucket", "2.5", 4],
      ["_bucket", "10", 5],
      ["_bucket", "+Inf", 7],
      ["_sum", undefined, 29.6],
      ["_count", undefined, 7],
    ],
  );
  assert.ok(samples.every(({ labels }) => labels.model === "m"));
});
