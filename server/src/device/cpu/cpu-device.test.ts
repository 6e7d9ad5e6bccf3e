import assert from "node:assert/strict";
import { availableParallelism } from "node:os";
import { test } from "node:test";
import { CpuDevice, numIdleProcessors } from "./cpu-device.ts";

test("numIdleProcessors() leaves out the busy ones and never gives none", () => {
  const cases = [
    [8, 0, 8],
    [8, 2.6, 5],
    [2, 1.2, 1],
    [2, 40, 1],
  ] as const;
  for (const [processors, load, expected] of cases) assert.equal(numIdleProcessors(processors, load), expected);
});

test("CpuDevice caps its threads by the processors", async () => {
  const device = new CpuDevice({ numThreads: 4096 });
  assert.equal(device.numThreads, availableParallelism());
  await device.close();
});

for (const numThreads of [0, -1, 1.5, Number.NaN]) {
  test(`CpuDevice refuses ${numThreads} threads`, () => {
    assert.throws(() => new CpuDevice({ numThreads }), /numThreads: expected a positive integer/);
  });
}

test("compute() refuses a device that is closed, and close() may be called twice", async () => {
  const device = new CpuDevice({ numThreads: 1 });
  await device.close();
  await device.close();
  await assert.rejects(device.compute(0n, 1), /the CPU device is closed/);
});
