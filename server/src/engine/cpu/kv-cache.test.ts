import assert from "node:assert/strict";
import { test } from "node:test";
import { CpuDevice } from "../../device/cpu/cpu-device.ts";
import { CpuKvCache, expectFittingHeads } from "./kv-cache.ts";

const LAYER = { window: undefined, rope: 0, mlp: "dense" } as const;
const CONFIG = {
  numKvHeads: 2,
  headDim: 8,
  layers: [LAYER, { ...LAYER, heads: { numKvHeads: 1, headDim: 32 } }, { ...LAYER, kvSource: 0 }],
};

test("CpuKvCache gives layers caches of their own sizes, and shared ones the cache that they read", async () => {
  const device = new CpuDevice({ numThreads: 1 });
  const cache = new CpuKvCache(device, CONFIG, { numBlocks: 2, numHostBlocks: 1, blockSize: 4, type: "f32" });
  try {
    const shapes = cache.layers.map((layer) => layer?.keys.shape);
    assert.deepEqual(shapes, [
      [8, 16],
      [8, 32],
      [8, 16],
    ]);
    assert.equal(cache.layers[2], cache.layers[0]);
    // To the host block and back to another one.
    assert.doesNotThrow(() => cache.copyBlocks(Int32Array.of(0, 2, 2, 1)));
    assert.throws(() => cache.copyBlocks(Int32Array.of(0, 9)));
  } finally {
    cache.close();
    await device.close();
  }
});

test("expectFittingHeads() looks at the heads of each layer", () => {
  const fitting = { ...CONFIG, headDim: 32 };
  assert.doesNotThrow(() => expectFittingHeads(fitting, "q8_0"));
  assert.throws(() => expectFittingHeads(CONFIG, "q8_0"), /heads of 8 are no multiple/);
});
