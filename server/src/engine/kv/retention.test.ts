import assert from "node:assert/strict";
import { test } from "node:test";
import { blockRetention, type Retention } from "./retention.ts";

test("blockRetention() asks the range that holds a block's first token, and behind the prompt the output's", () => {
  const range = (start: number, end: number, priority: number): Retention["ranges"][number] => {
    return { start, end, priority, durationMs: 1 };
  };
  const decode = { priority: 5, durationMs: 2 };
  const retention: Retention = { ranges: [range(10, 20, 90), range(24, Number.POSITIVE_INFINITY, 70)], decode };
  const priorityAt = (firstToken: number): number | undefined => blockRetention(retention, firstToken, 30)?.priority;
  assert.deepEqual([0, 9, 10, 19, 20, 24, 29, 30, 100].map(priorityAt), [
    undefined,
    undefined,
    90,
    90,
    undefined,
    70,
    70,
    5,
    5,
  ]);
});
