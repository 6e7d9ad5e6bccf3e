import assert from "node:assert/strict";
import { test } from "node:test";
import { longestGap, longestSpan, ticksOf } from "./spans.ts";

test("`longestSpan()` leaves whole requests out", () => {
  const common = { model: "m", depth: 0 } as const;
  const queue = { ...common, kind: "queue", startMs: 0, endMs: 10 } as const;
  const compute = { ...common, kind: "compute", startMs: 10, endMs: 310 } as const;
  assert.equal(longestSpan([{ ...common, kind: "request", startMs: 0, endMs: 400 }, queue, compute]), compute);
  assert.equal(longestSpan([]), undefined);
});

test("`longestGap()` finds the silence of a stream", () => {
  assert.deepEqual(longestGap({ responsesMs: [10, 20, 320, 330] }), { fromMs: 20, lengthMs: 300 });
  assert.equal(longestGap({ responsesMs: [10] }), undefined);
});

test("`ticksOf()` has round steps, at most five and never beyond the end", () => {
  assert.deepEqual(ticksOf(325), [0, 100, 200, 300]);
  assert.deepEqual(ticksOf(0), [0]);
  for (const total of [0.37, 1, 9.99, 47, 800, 123_456]) {
    const ticks = ticksOf(total);
    assert.ok(ticks.length >= 2 && ticks.length <= 5 && (ticks.at(-1) ?? 0) <= total, `${total}: ${ticks}`);
  }
});
