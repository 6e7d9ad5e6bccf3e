import assert from "node:assert/strict";
import { test } from "node:test";
import type { CudaDriver } from "../../native/cuda/cuda.ts";
import type { CudaFunctions } from "../../native/cuda/functions.ts";
import { findGpus, visibleGpus } from "./find-gpus.ts";

/** A driver with devices of these compute capabilities, times ten. */
function driverOf(capabilities: readonly number[]): CudaDriver {
  const calls: Partial<CudaFunctions> = {
    deviceCount: (count) => {
      count[0] = capabilities.length;
      return 0;
    },
    device: (device, ordinal) => {
      device[0] = ordinal;
      return 0;
    },
    deviceName: (name, _length, device) => {
      new TextEncoder().encodeInto(`Card ${device}\0`, name);
      return 0;
    },
    deviceMemory: (numBytes) => {
      numBytes[0] = 2n ** 36n;
      return 0;
    },
    deviceAttribute: (value, attribute, device) => {
      const capability = capabilities[device] ?? 0;
      value[0] = attribute === 75 ? Math.floor(capability / 10) : capability % 10;
      return 0;
    },
  };
  const check = (status: number, doing: string): void => {
    if (status !== 0) throw new Error(doing);
  };
  return { path: "fake", version: 13000, calls: calls as CudaFunctions, check };
}

test("findGpus() leaves out those that no kernel is written for, and says so", () => {
  const { gpus, notes } = findGpus(() => driverOf([90, 75, 89]));
  assert.deepEqual(gpus, [
    { ordinal: 0, name: "Card 0", capability: 90, numBytes: 2 ** 36 },
    { ordinal: 2, name: "Card 2", capability: 89, numBytes: 2 ** 36 },
  ]);
  assert.deepEqual(notes, ["GPU 1 (Card 1) is older than compute capability 8.0"]);
});

test("findGpus() finds none without a driver, and gives the reason", () => {
  const { gpus, notes } = findGpus(() => {
    throw new Error("the CUDA driver is missing");
  });
  assert.deepEqual([gpus, notes], [[], ["the CUDA driver is missing"]]);
});

test("visibleGpus() finds all of them, and none without a driver", () => {
  assert.deepEqual(
    visibleGpus(() => driverOf([90, 35])).map(({ ordinal, capability }) => [ordinal, capability]),
    [
      [0, 90],
      [1, 35],
    ],
  );
  assert.deepEqual(
    visibleGpus(() => {
      throw new Error("no driver");
    }),
    [],
  );
});
