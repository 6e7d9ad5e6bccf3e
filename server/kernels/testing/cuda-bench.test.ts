import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "../../src/device/cuda/fake-kernel-stream.ts";
import { allCudaBenches } from "../cuda-benches.ts";
import { rooflineShare } from "./cuda-bench.ts";
import type { CudaCheckContext } from "./cuda-check.ts";

const ROOFLINES = { gbPerSecond: 4000, tflops: 800 };

test("rooflineShare() compares a time with the roofline that allows less", () => {
  assert.deepEqual(rooflineShare({ bytes: 2e9, flops: 1e9 }, 1e-3, ROOFLINES), {
    us: 1000,
    gbPerSecond: 2000,
    tflops: 1,
    bound: "bytes",
    share: 0.5,
  });
  const { bound, share } = rooflineShare({ bytes: 1e6, flops: 2e11 }, 1e-3, ROOFLINES);
  assert.deepEqual({ bound, share }, { bound: "flops", share: 0.25 });
});

test("every bench has a name of its own", () => {
  assert.notEqual(allCudaBenches.length, 0);
  assert.equal(new Set(allCudaBenches.map(({ name }) => name)).size, allCudaBenches.length);
});

/** Sets with inputs that are made quickly. */
const QUICK = ["copy-block", "quantize bf16 to e4m3", "mix-experts bf16", "route-experts bf16"];

test("benches tell their bytes and launch", () => {
  const quick = allCudaBenches.filter(({ name }) => QUICK.includes(name));
  assert.equal(quick.length, QUICK.length);
  for (const { name, benches } of quick) {
    const stream = new FakeKernelStream();
    for (const { bytes, launch } of benches(addressesOnly(stream))) {
      const before = stream.launches.length;
      launch(0);
      assert.ok(bytes > 0 && stream.launches.length > before, name);
    }
  }
});

function addressesOnly(stream: FakeKernelStream): CudaCheckContext {
  const take = (): bigint => 4096n;
  return { stream, upload: take, allocate: take, zeros: take, download: () => Promise.reject(new Error("no device")) };
}
