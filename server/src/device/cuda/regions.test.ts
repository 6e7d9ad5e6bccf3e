import assert from "node:assert/strict";
import { test } from "node:test";
import { placeRegions, planRegions } from "./regions.ts";

test("planRegions() lays regions one behind the other, each at a multiple of 256 bytes", () => {
  const plan = planRegions({ rows: 300, counters: 0, sums: 256 });
  assert.deepEqual(plan, { offsets: { rows: 0, counters: 512, sums: 512 }, numBytes: 768 });
  assert.deepEqual(placeRegions(plan, 4096n), { rows: 4096n, counters: 4608n, sums: 4608n });
});
