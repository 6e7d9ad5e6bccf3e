import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "../../src/device/cuda/fake-kernel-stream.ts";
import { launchWgmmaGemm, type WgmmaGemmCudaArgs, wgmmaTileConfig } from "./wgmma-gemm.cuda.ts";
import { planWgmmaGemm, type WgmmaTileConfig, wgmmaBlocks, wgmmaSharedBytes } from "./wgmma-plan.ts";

const NUM_SMS = 132;
const SHAPE = { numRows: 64, outputs: 6144, rowBytes: 4096, isGated: false, keepsPartials: true };

function planned(change: Partial<typeof SHAPE>): WgmmaTileConfig {
  const form = planWgmmaGemm(NUM_SMS, { ...SHAPE, ...change });
  assert.ok(form);
  return form;
}

test("planWgmmaGemm() has a block on nearly every multiprocessor, and none twice", () => {
  for (const elementBytes of [1, 2]) {
    for (const [outputs, inputs, isGated] of [
      [6144, 4096, false],
      [4096, 4096, false],
      [28672, 4096, true],
      [4096, 14336, false],
    ] as const) {
      const change = { outputs, rowBytes: inputs * elementBytes, isGated, keepsPartials: !isGated };
      assert.equal(wgmmaBlocks(outputs, planned(change)), 128, `${outputs} x ${inputs}`);
    }
  }
});

test("planWgmmaGemm() takes rows in the steps of the matrix units, and all stages into shared memory", () => {
  for (const [numRows, rows] of [
    [9, 16],
    [17, 32],
    [40, 64],
    [65, 96],
    [97, 128],
  ] as const) {
    const form = planned({ numRows });
    assert.equal(form.rows, rows);
    assert.ok(wgmmaSharedBytes(form) <= 226 * 1024);
    assert.ok(form.weightStages >= 2 * form.groups * form.groupTiles);
  }
});

test("planWgmmaGemm() splits inputs only for readers that add parts up, and keeps both halves of a gate together", () => {
  assert.equal(planned({}).splits, 2);
  assert.equal(planned({ keepsPartials: false }).splits, 1);
  const { groups, groupTiles } = planned({ isGated: true, keepsPartials: false });
  assert.equal((groups * groupTiles) % 2, 0);
});

test("planWgmmaGemm() plans nothing for shapes that the kernel does not know", () => {
  for (const change of [
    { numRows: 129 },
    { rowBytes: 4096 + 64 },
    { outputs: 6140 },
    { outputs: 1000, isGated: true },
  ]) {
    assert.equal(planWgmmaGemm(NUM_SMS, { ...SHAPE, ...change }), undefined, JSON.stringify(change));
  }
});

const ARGS: WgmmaGemmCudaArgs = {
  weightType: "e4m3",
  ...{ x: 4096n, weight: 8192n, out: 16384n, numRows: 40, outputs: 4096, inputs: 14336 },
  scales: { rows: 64n, columns: 128n },
};

test("launchWgmmaGemm() gives TMA both operands and keeps split-K partial sums where inputs are split", () => {
  const stream = new FakeKernelStream();
  const form = wgmmaTileConfig(stream, { ...ARGS, matrixRows: 4096, keepsPartials: true });
  assert.ok(form);
  launchWgmmaGemm(stream, ARGS, form);
  const [launch] = stream.launches;
  assert.deepEqual(launch?.args.slice(0, 2), [
    { table: { address: 8192n, rowBytes: 14336, numRows: 4096, pieceRows: form.tileOutputs } },
    { table: { address: 4096n, rowBytes: 14336, numRows: 40, pieceRows: 64 } },
  ]);
  // Nothing whole, two parts, 40 rows of 4096 outputs, 56 pieces of inputs for each block.
  assert.deepEqual(launch.args.slice(-5), [{ ptr: 0n }, { ptr: 16384n }, { i32: 40 }, { i32: 4096 }, { i32: 56 }]);
});

test("launchWgmmaGemm() refuses more rows than its form has", () => {
  const form = planned({ numRows: 16 });
  assert.throws(() => launchWgmmaGemm(new FakeKernelStream(), ARGS, form), /at most 16 rows, got 40/);
});

test("wgmmaTileConfig() gives nothing without WGMMA", () => {
  const shape = { weightType: "bf16", numRows: 32, matrixRows: 4096, inputs: 4096 } as const;
  assert.equal(wgmmaTileConfig({ arch: "sm_90", numSms: NUM_SMS }, shape), undefined);
  assert.equal(wgmmaTileConfig({ arch: "sm_80", numSms: NUM_SMS }, shape), undefined);
  assert.notEqual(wgmmaTileConfig({ arch: "sm_90a", numSms: NUM_SMS }, shape), undefined);
});
