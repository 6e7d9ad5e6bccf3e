import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import type { LoraAdapter, LoraTargets } from "../../formats/lora/lora-adapter.ts";
import type { AdapterMemory } from "../step-runner.ts";
import { AdapterCache } from "./adapter-cache.ts";

const TARGETS: LoraTargets = {
  numLayers: 1,
  expertLayers: new Set(),
  prefixes: [""],
  layer: "layers.#.",
  modules: new Map(),
  moduleIds: new Map(),
};

/** An adapter of 40 bytes per rank. */
function adapter(rank: number, fill = 0): LoraAdapter {
  const target = { linear: "qkv", column: 0, inputs: 4, outputs: 6 } as const;
  const [a, b] = [new Float32Array(4 * rank).fill(fill), new Float32Array(6 * rank).fill(fill)];
  return { changes: [{ layer: 0, target, rank, a, b }] };
}

class FakeMemory implements AdapterMemory {
  readonly targets = TARGETS;
  readonly loaded = new Set<number>();
  numLoads = 0;

  async load(): Promise<number> {
    await turn();
    this.numLoads += 1;
    this.loaded.add(this.numLoads);
    return this.numLoads;
  }

  unload(id: number): void {
    assert.ok(this.loaded.delete(id), `adapter ${id} is not loaded`);
  }
}

function cacheOf(maxBytes: number, maxRank = 64): { readonly cache: AdapterCache; readonly memory: FakeMemory } {
  const memory = new FakeMemory();
  return { memory, cache: new AdapterCache(memory, { maxBytes, maxRank }) };
}

const reader = (rank: number, fill = 0): (() => Promise<LoraAdapter>) => {
  return () => Promise.resolve(adapter(rank, fill));
};
const never = (): Promise<LoraAdapter> => Promise.reject(new Error("it is here already"));

test("acquire() loads an adapter once, however many ask for it at the same time", async () => {
  const { cache, memory } = cacheOf(1000);
  const [first, second] = await Promise.all([cache.acquire("a", reader(1)), cache.acquire("a", never)]);
  assert.equal(first, second);
  assert.equal(memory.numLoads, 1);
  cache.checkIntegrity(2);
  cache.release(first);
  cache.release(second);
  cache.checkIntegrity(0);
  assert.equal((await cache.acquire("a", never)).id, first.id);
});

test("acquire() makes room by the adapter that was used longest ago and that nobody holds", async () => {
  const { cache, memory } = cacheOf(120);
  const a = await cache.acquire("a", reader(1));
  cache.release(await cache.acquire("b", reader(1)));
  cache.release(await cache.acquire("c", reader(1)));
  cache.release(await cache.acquire("b", never));
  await cache.acquire("d", reader(1));
  assert.deepEqual(cache.keys, ["a", "b", "d"]);
  cache.release(a);
  assert.deepEqual(cache.keys, ["b", "d", "a"]);
  assert.equal(cache.numBytes, 120);
  assert.deepEqual([...memory.loaded], [1, 2, 4]);
});

test("acquire() waits while all adapters are in use, and those behind it wait their turn", async () => {
  const { cache } = cacheOf(80);
  const a = await cache.acquire("a", reader(1));
  const b = await cache.acquire("b", reader(1));
  const order: string[] = [];
  const large = cache.acquire("large", reader(2)).then((held) => {
    order.push("large");
    return held;
  });
  const small = cache.acquire("small", reader(1)).then(() => order.push("small"));
  cache.release(a);
  await turn();
  await turn();
  assert.deepEqual(order, []);
  cache.release(b);
  cache.release(await large);
  await small;
  assert.deepEqual(order, ["large", "small"]);
  assert.deepEqual(cache.keys, ["small"]);
  cache.checkIntegrity(1);
});

test("acquire() gives adapters of equal numbers equal salts, and others other ones", async () => {
  const { cache } = cacheOf(1000);
  const salts: string[] = [];
  for (const [key, fill] of [
    ["a", 1],
    ["b", 2],
    ["c", 1],
  ] as const) {
    salts.push((await cache.acquire(key, reader(1, fill))).salt);
  }
  assert.equal(salts[0], salts[2]);
  assert.notEqual(salts[0], salts[1]);
});

const REFUSED: readonly (readonly [name: string, rank: number, expected: RegExp])[] = [
  [
    "larger than the cache",
    4,
    /the adapter takes 160 bytes of memory, the cache of adapters has 120: raise lora_cache_h/,
  ],
  ["of a larger rank than allowed", 9, /the adapter has rank 9, expected at most 8: raise lora_cache_max_adapter_size/],
];
for (const [name, rank, expected] of REFUSED) {
  test(`acquire() refuses an adapter ${name}, and takes the next`, async () => {
    const { cache } = cacheOf(120, 8);
    await assert.rejects(cache.acquire("a", reader(rank)), expected);
    assert.equal(cache.has("a"), false);
    await cache.acquire("a", reader(1));
    cache.checkIntegrity(1);
  });
}

test("acquire() tells all who asked why an adapter cannot be read", async () => {
  const { cache } = cacheOf(120);
  const broken = (): Promise<LoraAdapter> => Promise.reject(new Error("no such file"));
  const both = await Promise.allSettled([cache.acquire("a", broken), cache.acquire("a", never)]);
  assert.deepEqual(
    both.map((result) => result.status),
    ["rejected", "rejected"],
  );
  cache.checkIntegrity(0);
  assert.equal(cache.has("a"), false);
});

test("close() fails those that wait for room", async () => {
  const { cache } = cacheOf(40);
  await cache.acquire("a", reader(1));
  const waiting = cache.acquire("b", reader(1));
  await turn();
  cache.close();
  await assert.rejects(waiting, /the engine is closed/);
});
