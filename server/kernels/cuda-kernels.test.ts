import assert from "node:assert/strict";
import { before, test } from "node:test";
import { longTestsReason } from "../../tests/support/long-tests.ts";
import type { RecordedLaunch } from "../src/device/cuda/fake-kernel-stream.ts";
import { allCudaChecks } from "./cuda-checks.ts";
import { CUDA_ARCHITECTURES, compileKernel, cudaCompiler, hasKernel } from "./testing/compile-cuda.test-support.ts";
import { recordLaunches } from "./testing/record-launches.test-support.ts";

/** Sources with WGMMA refuse to compile for others. */
const WGMMA_ARCH = "sm_90a";

/** Between these lies what the oldest and the newest show. */
const SHOWN_BY_OTHERS = "sm_89";

/** By architecture, then by the name of the check. */
const recorded = new Map<string, Map<string, readonly RecordedLaunch[]>>();

before(async () => {
  for (const arch of CUDA_ARCHITECTURES.filter((each) => each !== SHOWN_BY_OTHERS || longTestsReason === undefined)) {
    const byCheck = new Map<string, readonly RecordedLaunch[]>();
    for (const check of allCudaChecks.filter(({ needsWgmma }) => needsWgmma !== true || arch === WGMMA_ARCH))
      byCheck.set(check.name, await recordLaunches(check, arch));
    recorded.set(arch, byCheck);
  }
});

test("every check of a GPU kernel launches within what its architecture takes", () => {
  const newest = recorded.get(WGMMA_ARCH) ?? new Map<string, readonly RecordedLaunch[]>();
  assert.equal(newest.size, allCudaChecks.length);
  for (const [name, launches] of newest) assert.notEqual(launches.length, 0, name);
});

const { nvrtc, reason } = await cudaCompiler();

for (const arch of CUDA_ARCHITECTURES) {
  const skip = (nvrtc === undefined ? reason : arch === SHOWN_BY_OTHERS && longTestsReason) || false;
  test(`every GPU kernel compiles for ${arch}`, { skip }, () => {
    assert.ok(nvrtc);
    const specs = [...(recorded.get(arch)?.values() ?? [])].flat().map(({ spec }) => spec);
    // Each source once shows that the oldest architecture has its instructions; the newest compiles each kernel of it.
    const isSample = arch !== WGMMA_ARCH && longTestsReason !== undefined;
    const found = new Map(specs.map((spec) => [isSample ? spec.source : `${spec.source} ${spec.name}`, spec]));
    assert.notEqual(found.size, 0);
    // Kernels of one source with the same definitions are in the same machine code.
    const compiled = new Map<string, Uint8Array>();
    for (const spec of found.values()) {
      const key = JSON.stringify([spec.source, spec.defines]);
      const cubin = compiled.get(key) ?? compileKernel(nvrtc, spec, arch);
      compiled.set(key, cubin);
      assert.ok(hasKernel(cubin, spec.name), `${spec.source} ${spec.name}`);
    }
  });
}
