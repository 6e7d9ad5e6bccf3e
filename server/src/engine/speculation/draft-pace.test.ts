import assert from "node:assert/strict";
import { test } from "node:test";
import { DraftPace } from "./draft-pace.ts";

test("next() grows with accepted drafts, up to what is allowed", () => {
  const pace = new DraftPace();
  const lengths: number[] = [];
  for (let i = 0; i < 4; i++) {
    const length = pace.next(20);
    lengths.push(length);
    pace.record(length, length);
  }
  assert.deepEqual(lengths, [4, 8, 16, 20]);
});

test("next() falls to one more than came true", () => {
  const pace = new DraftPace();
  pace.record(8, 2);
  assert.equal(pace.next(20), 3);
});

test("next() pauses longer and longer while every draft is rejected, and goes on at once after a good one", () => {
  const pace = new DraftPace();
  const tried: number[] = [];
  for (let token = 0; token < 120; token++) {
    const length = pace.next(8);
    if (length > 0) tried.push(token);
    pace.record(length, 0);
  }
  assert.deepEqual(tried, [0, 1, 3, 6, 11, 20, 37, 70, 103]);
  const recovered = new DraftPace();
  for (const accepted of [0, 0]) recovered.record(1, accepted);
  recovered.record(0, 0);
  recovered.record(1, 1);
  assert.ok(recovered.next(8) > 0);
});
