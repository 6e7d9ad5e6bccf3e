import assert from "node:assert/strict";
import { test } from "node:test";
import type { ModelInstance } from "../backend/backend.ts";
import { InstancePool } from "./instance-pool.ts";

function instanceOf(name: string, load?: () => number): ModelInstance {
  const base = { name, execute: () => undefined, isReady: () => true, close: () => Promise.resolve() };
  return load === undefined ? base : { ...base, load };
}

test("InstancePool gives the free instance of the lowest number", () => {
  const [a, b] = [instanceOf("a"), instanceOf("b")];
  const pool = new InstancePool([a, b]);
  assert.equal(pool.acquire(), a);
  assert.equal(pool.acquire(), b);
  assert.equal(pool.acquire(), undefined);
  pool.release(b);
  pool.release(a);
  assert.equal(pool.acquire(), a);
});

test("InstancePool gives the least loaded of instances that answer later, and of equals the first", () => {
  const loads = new Map([
    ["a", 0],
    ["b", 0],
    ["c", 0],
  ]);
  const instances = [...loads.keys()].map((name) => instanceOf(name, () => loads.get(name) ?? 0));
  const pool = new InstancePool(instances);
  const taken = Array.from({ length: 7 }, () => {
    const instance = pool.acquire();
    assert.ok(instance !== undefined);
    loads.set(instance.name, (loads.get(instance.name) ?? 0) + 1);
    pool.release(instance);
    return instance.name;
  });
  assert.deepEqual(taken, ["a", "b", "c", "a", "b", "c", "a"]);
  loads.set("b", 0);
  assert.equal(pool.acquire()?.name, "b");
});
