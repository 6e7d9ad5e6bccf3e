import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoraAdapter } from "../../formats/lora/lora-adapter.ts";
import type { AdapterMemory } from "../step-runner.ts";
import { FollowedAdapters } from "./followed-adapters.ts";

const CHANGE = {
  layer: 0,
  target: { linear: "qkv", column: 0, inputs: 1, outputs: 1 },
  rank: 1,
  a: Float32Array.of(1),
  b: Float32Array.of(2),
} as const;
const targets = {
  numLayers: 1,
  expertLayers: new Set<number>(),
  prefixes: [],
  layer: "",
  modules: new Map(),
  moduleIds: new Map(),
};
const naming = (adapter: number | undefined) => ({
  sequences: [{ queryStart: 0, queryLength: 1, contextLength: 1, blockTable: Int32Array.of(0), adapter }],
});

/** Loads on request. */
class SlowMemory implements AdapterMemory {
  readonly targets = targets;
  readonly log: string[] = [];
  go: (id: number) => void = () => undefined;
  fail: (error: Error) => void = () => undefined;
  load({ changes }: LoraAdapter): Promise<number> {
    this.log.push(`load ${changes.length}`);
    return new Promise((resolve, reject) => {
      this.go = resolve;
      this.fail = reject;
    });
  }
  unload(id: number): void {
    this.log.push(`unload ${id}`);
  }
}

async function coming(memory: AdapterMemory, id: number): Promise<FollowedAdapters> {
  const adapters = new FollowedAdapters(memory);
  await adapters.take({ kind: "load", id, numChanges: 2 });
  await adapters.take({ kind: "change", change: CHANGE });
  assert.equal(adapters.isLoading, false);
  await adapters.take({ kind: "change", change: CHANGE });
  await Promise.resolve();
  return adapters;
}

test("FollowedAdapters loads what came whole, and lets steps go on that do not name it", async () => {
  const memory = new SlowMemory();
  const adapters = await coming(memory, 5);
  assert.equal(adapters.isLoading, true);
  await adapters.ready(naming(undefined));
  let isReady = false;
  const step = adapters.ready(naming(5)).then(() => {
    isReady = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isReady, false);
  memory.go(5);
  await step;
  await adapters.take({ kind: "unload", id: 5 });
  assert.deepEqual(memory.log, ["load 2", "unload 5"]);
});

test("FollowedAdapters tells with the next step why one could not be loaded", async () => {
  const full = new SlowMemory();
  const adapters = await coming(full, 1);
  full.fail(new Error("there is no memory"));
  await assert.rejects(adapters.ready(naming(1)), /there is no memory/);
  await assert.rejects(adapters.ready(naming(undefined)), /there is no memory/);
  const other = new SlowMemory();
  const misnumbered = await coming(other, 1);
  other.go(2);
  await assert.rejects(misnumbered.ready(naming(1)), /adapter 1 of the leader is number 2 here/);
});
