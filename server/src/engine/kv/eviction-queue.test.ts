import assert from "node:assert/strict";
import { test } from "node:test";
import { uniformAt } from "../sample/random.ts";
import { EvictionQueue, evictionKey } from "./eviction-queue.ts";

function drain(queue: EvictionQueue): number[] {
  const items: number[] = [];
  for (let item = queue.first(); item !== undefined; item = queue.first()) {
    items.push(item);
    queue.delete(item);
  }
  return items;
}

test("first() gives the lowest priority, and the least recently used among equals", () => {
  const queue = new EvictionQueue(5);
  queue.set(0, 35, 10);
  queue.set(1, 35, 9);
  queue.set(2, 0, 100);
  queue.set(3, 100, 1);
  queue.set(4, 34, 2 ** 45 - 1);
  queue.set(0, 35, 8); // moves
  queue.delete(2);
  queue.delete(2);
  assert.deepEqual([queue.size, queue.has(2), queue.has(3)], [4, false, true]);
  assert.deepEqual(drain(queue), [4, 0, 1, 3]);
  assert.equal(queue.first(), undefined);
});

test("the order is that of sorting, over random entries, moves and departures", () => {
  let draws = 0;
  const draw = (below: number): number => Math.floor(uniformAt(3, 9, draws++) * below);
  const queue = new EvictionQueue(200);
  const keys = new Map<number, number>();
  for (let time = 0; time < 5000; time++) {
    const item = draw(200);
    if (draw(3) === 0) {
      queue.delete(item);
      keys.delete(item);
    } else {
      const priority = draw(101);
      queue.set(item, priority, time);
      keys.set(item, evictionKey(priority, time));
    }
    const least = Math.min(...keys.values());
    assert.equal(keys.get(queue.first() ?? -1), keys.size === 0 ? undefined : least);
  }
  const sorted = [...keys].sort(([, a], [, b]) => a - b).map(([item]) => item);
  assert.deepEqual(drain(queue), sorted);
});
