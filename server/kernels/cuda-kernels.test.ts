import assert from "node:assert/strict";
import { before, test } from "node:test";
import { FakeKernelStream } from "../src/device/cuda/fake-kernel-stream.ts";
import type { KernelSpec } from "../src/device/cuda/kernel-stream.ts";
import { allCudaChecks } from "./cuda-checks.ts";
import { CUDA_ARCHITECTURES, compileKernel, cudaCompiler, hasKernel } from "./testing/compile-cuda.test-support.ts";
import type { CudaCheck, CudaCheckContext } from "./testing/cuda-check.ts";

class NoDevice extends Error {}

/** Takes launches and has no results, so that a check ends where it would read them. */
function fakeContext(stream: FakeKernelStream): CudaCheckContext {
  let next = 4096n;
  const take = (numBytes: number): bigint => {
    const address = next;
    next += BigInt(Math.ceil(numBytes / 256) * 256);
    return address;
  };
  return {
    stream,
    upload: (bytes) => take(bytes.byteLength),
    allocate: take,
    zeros: take,
    download: () => Promise.reject(new NoDevice()),
  };
}

async function specsOf(check: CudaCheck, arch: string): Promise<readonly KernelSpec[]> {
  const stream = new FakeKernelStream(132, arch);
  await assert.rejects(check.run(fakeContext(stream)), NoDevice, check.name);
  return stream.launches.map((launch) => launch.spec);
}

test("every check of a GPU kernel launches within what its architecture takes", async () => {
  for (const check of allCudaChecks) {
    const specs = await specsOf(check, "sm_90a");
    assert.notEqual(specs.length, 0, check.name);
  }
});

const { nvrtc, reason } = await cudaCompiler();

for (const arch of CUDA_ARCHITECTURES) {
  const found = new Map<string, KernelSpec>();

  before(async () => {
    for (const check of allCudaChecks) {
      for (const spec of await specsOf(check, arch)) found.set(`${spec.source} ${spec.name}`, spec);
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
