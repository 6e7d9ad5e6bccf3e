import assert from "node:assert/strict";
import { test } from "node:test";
import { watcher } from "../build/calibrate-gpu.ts";
import { StatsCollector, sitesByMatrix } from "./input-stats.ts";

const layer = (first: number) => ({
  qkv: { weight: first },
  oProj: { weight: first + 1 },
  mlp: { in: { weight: first + 2 }, out: { weight: first + 3 } },
});

test("sitesByMatrix() names what each matrix of a layer reads, and experts by their router", () => {
  const experts = { ...layer(10), mlp: { router: 12 } };
  const sites = sitesByMatrix([layer(0), experts], (matrix) => matrix);
  assert.deepEqual(Object.fromEntries(sites), {
    0: "0 qkv",
    1: "0 oProj",
    2: "0 mlpIn",
    3: "0 mlpOut",
    10: "1 qkv",
    11: "1 oProj",
    12: "1 mlpIn",
  });
});

test("StatsCollector gives means and the largest of each input over all rows", () => {
  const stats = new StatsCollector();
  stats.add("0 qkv", Float32Array.of(1, -2, 3, 4), 2);
  stats.add("0 qkv", Float32Array.of(-5, 0), 2);
  const { numTokens, meanAbs, meanSquare, maxAbs } = stats.finished().get("0 qkv") ?? assert.fail("nothing was seen");
  assert.equal(numTokens, 3);
  assert.deepEqual([...meanAbs], [3, 2]);
  assert.deepEqual([...meanSquare], [35 / 3, 20 / 3]);
  assert.deepEqual([...maxAbs], [5, 4]);
});

test("watcher() reads the inputs of the layers' GEMMs, and nothing of others", () => {
  const stats = new StatsCollector();
  // 1, -2, 0.5 and 4 as bfloat16.
  const memory = new Map([[7n, new Uint8Array(Uint16Array.of(0x3f80, 0xc000, 0x3f00, 0x4080).buffer)]]);
  const read: number[] = [];
  const watch = watcher(new Map([[100n, "0 qkv"]]), stats, (address, numBytes) => {
    read.push(numBytes);
    return memory.get(address) ?? assert.fail("another place");
  });
  const product = { x: 7n, rows: 2, inputs: 2, inputType: "bf16" } as const;
  watch({ ...product, weight: 100n });
  watch({ ...product, weight: 101n });
  watch({ ...product, weight: 100n, inputType: "e4m3" });
  assert.deepEqual(read, [8]);
  assert.deepEqual([...(stats.finished().get("0 qkv")?.meanAbs ?? [])], [0.75, 3]);
});
