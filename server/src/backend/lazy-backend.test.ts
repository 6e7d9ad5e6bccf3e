import assert from "node:assert/strict";
import { test } from "node:test";
import type { Backend, ModelSource, UsableGpus } from "./backend.ts";
import { lazyBackend } from "./lazy-backend.ts";

const GPUS: UsableGpus = { ids: [0], minComputeCapability: 8 };
const SOURCE = {} as ModelSource;

/** Counts what is asked of it. */
class CountingBackend implements Backend {
  readonly name = "counting";
  readonly gpus = GPUS;
  readonly asked: string[] = [];

  load(): never {
    this.asked.push("load");
    throw new RangeError("no model");
  }

  async close(): Promise<void> {
    this.asked.push("close");
  }
}

test("lazyBackend() opens once, with the first question, and has the GPUs of the opened backend", async () => {
  const counting = new CountingBackend();
  let numOpened = 0;
  const backend = lazyBackend("counting", async () => {
    numOpened += 1;
    return counting;
  });
  assert.equal(backend.gpus, undefined);
  assert.equal(numOpened, 0);
  assert.equal(await backend.describe?.(SOURCE), undefined);
  assert.equal(backend.gpus, GPUS);
  await assert.rejects(async () => backend.load(SOURCE), /no model/);
  await backend.close();
  assert.equal(numOpened, 1);
  assert.deepEqual(counting.asked, ["load", "close"]);
});

test("lazyBackend() opens nothing to close, and opens again after a failure", async () => {
  let numOpened = 0;
  const backend = lazyBackend("counting", async () => {
    numOpened += 1;
    if (numOpened === 1) throw new RangeError("not installed yet");
    return new CountingBackend();
  });
  await backend.close();
  assert.equal(numOpened, 0);
  await assert.rejects(async () => backend.load(SOURCE), /not installed yet/);
  await backend.close();
  await assert.rejects(async () => backend.load(SOURCE), /no model/);
  assert.equal(numOpened, 2);
});
