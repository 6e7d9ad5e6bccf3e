import assert from "node:assert/strict";
import { test } from "node:test";
import { SlotPool } from "./slots.ts";

function text(slot: { lane: number; index: number } | undefined): string {
  return slot === undefined ? "none" : `${slot.lane}/${slot.index}`;
}

test("SlotPool spreads over the instances, lowest slot first, until none is left", () => {
  const pool = new SlotPool(2, 2);
  const taken = Array.from({ length: 5 }, () => text(pool.acquire()));
  assert.deepEqual(taken, ["0/0", "1/0", "0/1", "1/1", "none"]);
});

test("SlotPool gives the lowest of the slots that came back", () => {
  const pool = new SlotPool(2, 3);
  const taken = Array.from({ length: 6 }, () => pool.acquire());
  for (const i of [5, 2, 4, 1]) pool.release(taken[i] ?? { lane: 0, index: 0 });
  assert.deepEqual(
    Array.from({ length: 5 }, () => text(pool.acquire())),
    ["1/0", "0/1", "0/2", "1/2", "none"],
  );
});

test("SlotPool takes no memory for slots that were never used", () => {
  const pool = new SlotPool(1, 2 ** 31 - 1);
  assert.equal(text(pool.acquire()), "0/0");
  assert.equal(text(pool.acquire()), "0/1");
});

test("SlotPool of a model without instances has no slot", () => {
  assert.equal(new SlotPool(0, 4).acquire(), undefined);
});
