import assert from "node:assert/strict";
import { test } from "node:test";
import { describeGpus } from "./describe-gpus.ts";

test("describeGpus() names libraries, devices and what cannot be used", () => {
  const gpu = { ordinal: 0, name: "NVIDIA H200", capability: 90, numBytes: 150_754_820_096 };
  const found = { gpus: [gpu], notes: ["GPU 1 (NVIDIA T4) is older than compute capability 8.0"] };
  const lines = describeGpus(
    () => true,
    () => ["NVRTC: /lib/libnvrtc.so.13"],
    () => found,
  );
  assert.deepEqual(lines, [
    "NVRTC: /lib/libnvrtc.so.13",
    "GPU 0: NVIDIA H200, compute capability 9.0, 140 GiB",
    "GPU 1 (NVIDIA T4) is older than compute capability 8.0",
  ]);
});

test("describeGpus() has nothing to say where there is no driver", () => {
  const lines = describeGpus(
    () => false,
    () => assert.fail("nobody asks"),
    () => assert.fail("nobody looks"),
  );
  assert.deepEqual(lines, []);
});
