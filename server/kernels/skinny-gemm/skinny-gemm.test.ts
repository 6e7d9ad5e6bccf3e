import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "../../src/device/cuda/fake-kernel-stream.ts";
import { CUDA_ARCHITECTURES, compileKernel, cudaCompiler, hasKernel } from "../testing/compile-cuda.test-support.ts";
import { launchSkinnyGemm, planSkinnyGemm } from "./skinny-gemm.cuda.ts";

const ARGS = { x: 16n, weight: 32n, out: 64n, outputType: "bf16", numRows: 1, outputs: 4096, inputs: 4096 } as const;

test("launchSkinnyGemm() gives each sixteen outputs a block when there is one row", () => {
  const stream = new FakeKernelStream();
  launchSkinnyGemm(stream, { ...ARGS, weightType: "bf16" });
  assert.deepEqual(stream.launches[0]?.grid, [256, 1, 1]);
  assert.deepEqual(stream.launches[0]?.spec.defines, { TILES: 1, ROW_TILES: 1, STAGES: 5, BLOCKS_PER_SM: 2 });
});

test("launchSkinnyGemm() gives few blocks more shared memory than three of them could have", () => {
  const stream = new FakeKernelStream();
  launchSkinnyGemm(stream, { ...ARGS, weightType: "bf16" });
  launchSkinnyGemm(stream, { ...ARGS, outputs: 6144, weightType: "bf16" });
  assert.deepEqual(
    stream.launches.map(({ sharedBytes }) => sharedBytes),
    [5 * 8 * 2048, 4 * 8 * 2048],
  );
});

test("launchSkinnyGemm() takes sixteen rows at a time", () => {
  const stream = new FakeKernelStream();
  launchSkinnyGemm(stream, { ...ARGS, weightType: "e4m3", scales: 8n, numRows: 33 });
  assert.deepEqual(stream.launches[0]?.grid, [256, 3, 1]);
});

for (const [what, changes] of [
  ["outputs", { outputs: 4100 }],
  ["inputs", { inputs: 4160 }],
] as const) {
  test(`launchSkinnyGemm() refuses ${what} of another multiple`, () => {
    const args = { ...ARGS, weightType: "e4m3", ...changes } as const;
    assert.throws(
      () => launchSkinnyGemm(new FakeKernelStream(), args),
      /skinnyGemm: expected outputs of a multiple of 16/,
    );
  });
}

test("planSkinnyGemm() takes wider blocks for several rows of wide matrices only", () => {
  assert.deepEqual(planSkinnyGemm(132, 8, 28672), { tiles: 2, rowTiles: 1 });
  assert.deepEqual(planSkinnyGemm(132, 8, 4096), { tiles: 1, rowTiles: 1 });
  assert.deepEqual(planSkinnyGemm(132, 16, 28672), { tiles: 2, rowTiles: 2 });
});

const compiler = await cudaCompiler();
const VARIANTS = [
  { TILES: 1, ROW_TILES: 1, STAGES: 4, BLOCKS_PER_SM: 3 },
  { TILES: 1, ROW_TILES: 1, STAGES: 5, BLOCKS_PER_SM: 2 },
  { TILES: 2, ROW_TILES: 2, STAGES: 3, BLOCKS_PER_SM: 2, OUT_F32: 1, HAS_BIAS: 1 },
  { TILES: 1, ROW_TILES: 2, STAGES: 4, BLOCKS_PER_SM: 2, WEIGHT_E4M3: 1 },
  { TILES: 2, ROW_TILES: 2, STAGES: 3, BLOCKS_PER_SM: 2, WEIGHT_E4M3: 1, HAS_BIAS: 1 },
];

for (const arch of CUDA_ARCHITECTURES) {
  test(`skinny-gemm.cu compiles for ${arch}`, { skip: compiler.reason ?? false }, () => {
    for (const defines of VARIANTS) {
      const cubin =
        compiler.nvrtc && compileKernel(compiler.nvrtc, { source: "skinny-gemm/skinny-gemm.cu", defines }, arch);
      assert.ok(cubin !== undefined && hasKernel(cubin, "skinny_gemm"));
    }
  });
}
