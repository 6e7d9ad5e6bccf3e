import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "../../src/device/cuda/fake-kernel-stream.ts";
import { sharedBytesPerBlock } from "../cuda/device-limits.ts";
import {
  type FusedLayerCudaArgs,
  type FusedLayerShape,
  gridBarrierBytes,
  launchFusedLayer,
  planFusedLayer,
} from "./fused-layer.cuda.ts";

const LLAMA_8B: FusedLayerShape = {
  weightType: "bf16",
  numRows: 1,
  attentionWidth: 4096,
  width: 4096,
  inner: 14336,
  outWidth: 6144,
};

test("planFusedLayer() fits shared memory, and reduces as many tiles at once as fit", () => {
  for (const [weightType, numRows, tiles] of [
    ["bf16", 1, 8],
    ["bf16", 8, 2],
    ["e4m3", 1, 8],
    ["e4m3", 2, 8],
    ["int4", 1, 8],
    ["int4", 2, 8],
  ] as const) {
    const plan = planFusedLayer("sm_90a", { ...LLAMA_8B, weightType, numRows });
    assert.equal(plan?.tiles, tiles, `${weightType}, ${numRows} rows`);
    assert.ok(plan.sharedBytes <= sharedBytesPerBlock("sm_90a"));
    // Each sum that is reduced has a thread.
    assert.ok(16 * plan.rows * plan.tiles <= 512);
  }
});

test("planFusedLayer() refuses what the kernel is not written for", () => {
  for (const [weightType, numRows] of [
    ["bf16", 0],
    ["bf16", 9],
    ["e4m3", 5],
    ["int4", 3],
  ] as const) {
    assert.equal(planFusedLayer("sm_90a", { ...LLAMA_8B, weightType, numRows }), undefined);
  }
  assert.equal(planFusedLayer("sm_90a", { ...LLAMA_8B, width: 4096 + 16 }), undefined);
});

test("gridBarrierBytes() has room for the words of two rows after the counters", () => {
  const words = 2 * (4096 / 2) * 2 + 2 * (14336 / 2);
  assert.equal(gridBarrierBytes(LLAMA_8B), 4096 + 8 * words);
});

const ARGS: FusedLayerCudaArgs = {
  ...LLAMA_8B,
  ...{
    activation: "silu",
    epsilon: 1e-5,
    attention: 256n,
    residual: 512n,
    activated: 768n,
    norm: 1024n,
    gridBarrier: 8192n,
  },
  ...{ oProj: { weight: 1n }, gateUp: { weight: 2n }, down: { weight: 3n } },
};

test("launchFusedLayer() counts a launch once its last GEMM is done", () => {
  const qkvProj = { matrix: { weight: 4n }, norm: 2048n, out: 4096n };
  for (const [args, wanted] of [
    [ARGS, 1],
    [{ ...ARGS, qkvProj }, 1],
    [{ ...ARGS, gemms: [0, 1] }, 0],
    [{ ...ARGS, gemms: [2, 3] }, 1],
    [{ ...ARGS, qkvProj, gemms: [2, 3] }, 0],
    [{ ...ARGS, qkvProj, gemms: [3, 4] }, 1],
  ] as const) {
    const stream = new FakeKernelStream(132, "sm_90a");
    launchFusedLayer(stream, args);
    assert.deepEqual(stream.launches[0]?.args.at(-3), { i32: wanted });
  }
});

test("launchFusedLayer() refuses more blocks than there are counters for", () => {
  const stream = new FakeKernelStream(132, "sm_90a");
  assert.throws(() => launchFusedLayer(stream, { ...ARGS, numBlocks: 1021 }), /no counters for 1021 blocks/);
  assert.equal(stream.launches.length, 0);
});
