import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "../../src/device/cuda/fake-kernel-stream.ts";
import { sharedBytesPerBlock } from "../cuda/device-limits.ts";
import { int4WgmmaTileConfig, launchInt4Wgmma } from "./int4-wgmma.cuda.ts";
import { type Int4WgmmaShape, int4WgmmaBlocks, int4WgmmaSharedBytes, planInt4Wgmma } from "./int4-wgmma-plan.ts";

const SMS = 132;
const LAYER: readonly (readonly [outputs: number, inputs: number])[] = [
  [6144, 4096],
  [4096, 4096],
  [28672, 4096],
  [4096, 14336],
];

function shapes(use: Int4WgmmaShape["use"]): readonly Int4WgmmaShape[] {
  return LAYER.flatMap(([outputs, inputs]) =>
    [9, 16, 17, 32, 64].map((numRows) => ({ numRows, outputs, inputs, use })),
  );
}

test("planInt4Wgmma() takes one round of blocks for the GEMMs of an 8B model, and fits shared memory", () => {
  for (const shape of [...shapes("whole"), ...shapes("parts")]) {
    const form = planInt4Wgmma(SMS, shape);
    assert.ok(form !== undefined);
    const numBlocks = int4WgmmaBlocks(shape.outputs, form);
    assert.ok(numBlocks <= SMS && numBlocks > (2 / 3) * SMS, `${JSON.stringify(shape)}: ${numBlocks} blocks`);
    assert.ok(int4WgmmaSharedBytes(form) <= sharedBytesPerBlock("sm_90a"));
    assert.equal(form.weightStages % (form.groups * form.groupTiles), 0);
  }
});

test("planInt4Wgmma() of a gated GEMM has both halves in each block, and no splits", () => {
  for (const shape of shapes("gated")) {
    const { groups = 0, groupTiles = 0, splits } = planInt4Wgmma(SMS, shape) ?? {};
    assert.equal((groups * groupTiles) % 2, 0);
    assert.equal(splits, 1);
  }
});

test("planInt4Wgmma() has no form for other shapes", () => {
  const shape = { numRows: 16, outputs: 4096, inputs: 4096, use: "whole" } as const;
  for (const change of [{ numRows: 65 }, { inputs: 4096 + 64 }, { outputs: 4096 + 32 }]) {
    assert.equal(planInt4Wgmma(SMS, { ...shape, ...change }), undefined);
  }
  assert.equal(planInt4Wgmma(SMS, { ...shape, outputs: 4096 + 64, use: "gated" }), undefined);
});

test("int4WgmmaTileConfig() serves groups of 128 inputs where WGMMA exists", () => {
  const weight = { outputs: 4096, inputs: 4096, groupSize: 128 };
  assert.notEqual(int4WgmmaTileConfig({ arch: "sm_90a", numSms: SMS }, 16, weight), undefined);
  assert.equal(int4WgmmaTileConfig({ arch: "sm_90", numSms: SMS }, 16, weight), undefined);
  assert.equal(int4WgmmaTileConfig({ arch: "sm_90a", numSms: SMS }, 16, { ...weight, groupSize: 64 }), undefined);
});

test("launchInt4Wgmma() refuses more rows than its form has", () => {
  const stream = new FakeKernelStream(SMS, "sm_90a");
  const weight = { codes: 256n, scales: 512n, outputs: 4096, inputs: 4096, groupSize: 128 };
  const form = int4WgmmaTileConfig(stream, 16, weight);
  assert.ok(form !== undefined);
  const args = { x: 1024n, weight, out: 2048n, counters: 4096n, partials: 8192n };
  assert.throws(() => launchInt4Wgmma(stream, { ...args, numRows: 17 }, form), /expected at most 16 rows, got 17/);
  launchInt4Wgmma(stream, { ...args, numRows: 9 }, form);
  const [launch] = stream.launches;
  assert.equal(launch?.block[0], form.groups * 128 + 64);
  assert.deepEqual(launch.args[0], { table: { address: 1024n, rowBytes: 8192, numRows: 9, pieceRows: 16 } });
});
