import assert from "node:assert/strict";
import { test } from "node:test";
import { FakeKernelStream } from "../../src/device/cuda/fake-kernel-stream.ts";
import { sharedBytesPerBlock } from "../cuda/device-limits.ts";
import { int4GroupForm, launchInt4Group } from "./int4-group.cuda.ts";
import { type Int4GroupShape, int4GroupBlocks, int4GroupSharedBytes, planInt4Group } from "./int4-group-plan.ts";

const SMS = 132;
const LAYER: readonly (readonly [outputs: number, inputs: number])[] = [
  [6144, 4096],
  [4096, 4096],
  [28672, 4096],
  [4096, 14336],
];

function shapes(use: Int4GroupShape["use"]): readonly Int4GroupShape[] {
  return LAYER.flatMap(([outputs, inputs]) =>
    [9, 16, 17, 32, 64].map((numRows) => ({ numRows, outputs, inputs, use })),
  );
}

test("planInt4Group() takes one round of blocks for the products of an 8B model, and fits shared memory", () => {
  for (const shape of [...shapes("whole"), ...shapes("parts")]) {
    const form = planInt4Group(SMS, shape);
    assert.ok(form !== undefined);
    const numBlocks = int4GroupBlocks(shape.outputs, form);
    assert.ok(numBlocks <= SMS && numBlocks > (2 / 3) * SMS, `${JSON.stringify(shape)}: ${numBlocks} blocks`);
    assert.ok(int4GroupSharedBytes(form) <= sharedBytesPerBlock("sm_90a"));
    assert.equal(form.weightStages % (form.groups * form.groupTiles), 0);
  }
});

test("planInt4Group() of a gated product has both halves in each block, and no splits", () => {
  for (const shape of shapes("gated")) {
    const { groups = 0, groupTiles = 0, splits } = planInt4Group(SMS, shape) ?? {};
    assert.equal((groups * groupTiles) % 2, 0);
    assert.equal(splits, 1);
  }
});

test("planInt4Group() has no form for other shapes", () => {
  const shape = { numRows: 16, outputs: 4096, inputs: 4096, use: "whole" } as const;
  for (const change of [{ numRows: 65 }, { inputs: 4096 + 64 }, { outputs: 4096 + 32 }]) {
    assert.equal(planInt4Group(SMS, { ...shape, ...change }), undefined);
  }
  assert.equal(planInt4Group(SMS, { ...shape, outputs: 4096 + 64, use: "gated" }), undefined);
});

test("int4GroupForm() serves groups of 128 inputs where there are products of warp groups", () => {
  const weight = { outputs: 4096, inputs: 4096, groupSize: 128 };
  assert.notEqual(int4GroupForm({ arch: "sm_90a", numSms: SMS }, 16, weight), undefined);
  assert.equal(int4GroupForm({ arch: "sm_90", numSms: SMS }, 16, weight), undefined);
  assert.equal(int4GroupForm({ arch: "sm_90a", numSms: SMS }, 16, { ...weight, groupSize: 64 }), undefined);
});

test("launchInt4Group() refuses more rows than its form has", () => {
  const stream = new FakeKernelStream(SMS, "sm_90a");
  const weight = { codes: 256n, scales: 512n, outputs: 4096, inputs: 4096, groupSize: 128 };
  const form = int4GroupForm(stream, 16, weight);
  assert.ok(form !== undefined);
  const args = { x: 1024n, weight, out: 2048n, counters: 4096n, partials: 8192n };
  assert.throws(() => launchInt4Group(stream, { ...args, numRows: 17 }, form), /expected at most 16 rows, got 17/);
  launchInt4Group(stream, { ...args, numRows: 9 }, form);
  const [launch] = stream.launches;
  assert.equal(launch?.block[0], form.groups * 128 + 64);
  assert.deepEqual(launch.args[0], { table: { address: 1024n, rowBytes: 8192, numRows: 9, pieceRows: 16 } });
});
