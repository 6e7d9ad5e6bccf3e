import assert from "node:assert/strict";
import { test } from "node:test";
import type { LoraChange, LoraTarget } from "../../formats/lora/lora-adapter.ts";
import { planCudaLora } from "./lora.ts";

const QUERIES: LoraTarget = { linear: "qkv", column: 0, inputs: 24, outputs: 24 };
const KEYS: LoraTarget = { linear: "qkv", column: 24, inputs: 24, outputs: 12 };
const WHOLE: LoraTarget = { linear: "qkv", column: 0, inputs: 24, outputs: 48 };
const MLP_OUT: LoraTarget = { linear: "mlpOut", column: 0, inputs: 40, outputs: 24 };
const BASE = 1n << 40n;
const PART_BYTES = 32;

function change(layer: number, target: LoraTarget, rank: number): LoraChange {
  const a = new Float32Array(rank * target.inputs);
  return { layer, target, rank, a, b: new Float32Array(rank * target.outputs) };
}

test("planCudaLora() describes each part where the kernels look for it", () => {
  const changes = [change(0, QUERIES, 4), change(0, KEYS, 20), change(1, MLP_OUT, 16)];
  const plan = planCudaLora({ changes }, 2, "bf16");
  const table = plan.describe(BASE);
  const view = new DataView(table.buffer);
  // Two layers of four linear layers of four parts.
  assert.equal(table.length, 2 * 4 * 4 * PART_BYTES);
  const partAt = (index: number): readonly unknown[] => {
    const at = index * PART_BYTES;
    const [a, b] = [view.getBigUint64(at, true), view.getBigUint64(at + 8, true)];
    return [a === 0n ? 0 : Number(a - BASE), b === 0n ? 0 : Number(b - BASE), view.getInt32(at + 16, true)];
  };
  const offsets = plan.matrices.map(({ offset }) => offset);
  assert.deepEqual(partAt(0), [offsets[0], offsets[1], 16]);
  assert.deepEqual(partAt(1), [offsets[2], offsets[3], 32]);
  assert.deepEqual(partAt(2), [0, 0, 0]);
  assert.deepEqual(partAt(16 + 12), [offsets[4], offsets[5], 16]);
  assert.deepEqual([view.getInt32(PART_BYTES + 20, true), view.getInt32(PART_BYTES + 24, true)], [24, 12]);
  assert.equal(plan.maxRank, 32);
});

test("planCudaLora() fills ranks up, and nothing lies on anything else", () => {
  const { matrices, numBytes } = planCudaLora({ changes: [change(0, QUERIES, 4), change(1, MLP_OUT, 17)] }, 2, "f32");
  assert.deepEqual(
    matrices.map(({ paddedRows, paddedWidth }) => [paddedRows, paddedWidth]),
    [
      [16, 24],
      [24, 16],
      [32, 40],
      [24, 32],
    ],
  );
  let end = 2 * 4 * 4 * PART_BYTES;
  for (const { offset, paddedRows, paddedWidth } of matrices) {
    assert.ok(offset >= end && offset % 16 === 0);
    end = offset + 4 * paddedRows * paddedWidth;
  }
  assert.ok(numBytes >= end);
});

for (const [what, changes] of [
  ["a part and the whole", [change(0, KEYS, 4), change(0, WHOLE, 4)]],
  ["the same part twice", [change(1, MLP_OUT, 4), change(0, MLP_OUT, 4), change(1, MLP_OUT, 4)]],
] as const) {
  test(`planCudaLora() refuses ${what}: their sums would meet`, () => {
    assert.throws(() => planCudaLora({ changes }, 2, "bf16"), /layer \d: an adapter on a GPU changes each column/);
  });
}
