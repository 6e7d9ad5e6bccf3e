import assert from "node:assert/strict";
import { before, test } from "node:test";
import type { KernelSpec } from "../src/device/cuda/kernel-stream.ts";
import { allCudaChecks } from "./cuda-checks.ts";
import { CUDA_ARCHITECTURES, compileKernel, cudaCompiler, hasKernel } from "./testing/compile-cuda.test-support.ts";
import { recordLaunches } from "./testing/record-launches.test-support.ts";

test("every check of a GPU kernel launches within what its architecture takes", async () => {
  for (const check of allCudaChecks) {
    const launches = await recordLaunches(check, "sm_90a");
    assert.notEqual(launches.length, 0, check.name);
  }
});

const { nvrtc, reason } = await cudaCompiler();

for (const arch of CUDA_ARCHITECTURES) {
  const found = new Map<string, KernelSpec>();

  before(async () => {
    for (const check of allCudaChecks) {
      for (const { spec } of await recordLaunches(check, arch)) found.set(`${spec.source} ${spec.name}`, spec);
    }
  });

  test(`every GPU kernel compiles for ${arch}`, { skip: nvrtc === undefined ? reason : false }, () => {
    assert.ok(nvrtc);
    assert.notEqual(found.size, 0);
    for (const spec of found.values()) {
      assert.ok(hasKernel(compileKernel(nvrtc, spec, arch), spec.name), `${spec.source} ${spec.name}`);
    }
  });
}
