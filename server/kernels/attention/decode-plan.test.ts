import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeWorkspaceBytes, planDecode } from "./decode-plan.ts";

const LLAMA_8B = { numSequences: 64, numHeads: 32, numKvHeads: 8, headDim: 128, isFp8: false } as const;

test("planDecode() keeps two blocks a multiprocessor within its shared memory", () => {
  const limits: [string, number][] = [
    ["sm_80", 163 * 1024],
    ["sm_89", 99 * 1024],
    ["sm_90a", 227 * 1024],
  ];
  for (const [arch, limit] of limits) {
    for (const headDim of [24, 64, 80, 96, 100, 128, 256]) {
      for (const isFp8 of [true, false]) {
        const plan = planDecode(arch, 132, { ...LLAMA_8B, headDim, isFp8 });
        assert.ok(2 * plan.sharedBytes <= limit || plan.warps === 2, `${arch} ${headDim} ${isFp8}`);
        assert.ok(plan.sharedBytes <= limit, `${arch} ${headDim} ${isFp8}`);
      }
    }
  }
});

test("planDecode() splits contexts more when there are fewer sequences", () => {
  const splitsOf = (numSequences: number) => planDecode("sm_90a", 132, { ...LLAMA_8B, numSequences }).numSplits;
  assert.deepEqual([1, 16, 64, 512].map(splitsOf), [64, 9, 3, 1]);
});

test("planDecode() gives each block at most 16 query heads", () => {
  const formOf = (numHeads: number) => {
    const { rowHalves, numHeadChunks } = planDecode("sm_90a", 132, { ...LLAMA_8B, numHeads, numKvHeads: 1 });
    return [rowHalves, numHeadChunks];
  };
  assert.deepEqual([1, 8, 9, 16, 17, 71].map(formOf), [
    [1, 1],
    [1, 1],
    [2, 1],
    [2, 1],
    [2, 2],
    [2, 5],
  ]);
});

test("decodeWorkspaceBytes() is enough for every smaller number of sequences", () => {
  const bytes = decodeWorkspaceBytes("sm_90a", 132, LLAMA_8B);
  for (let numSequences = 1; numSequences <= 64; numSequences++) {
    const { numSplits } = planDecode("sm_90a", 132, { ...LLAMA_8B, numSequences });
    assert.ok(numSequences * 32 * numSplits * 130 * 4 <= bytes.partials);
    assert.ok(numSequences * 8 * 4 <= bytes.counters);
  }
});
