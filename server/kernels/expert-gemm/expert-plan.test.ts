import assert from "node:assert/strict";
import { test } from "node:test";
import { type ExpertGemmShape, expertWgmmaSharedBytes, planExpertGemm } from "./expert-plan.ts";

const HOPPER = { arch: "sm_90a", numSms: 132 };
const AMPERE = { arch: "sm_80", numSms: 108 };

/** The first GEMM of Qwen3-30B-A3B. */
function qwen(numTokens: number, changes: Partial<ExpertGemmShape> = {}): ExpertGemmShape {
  const shape = { weightType: "e4m3", numExperts: 128, inputs: 2048, outputs: 768, isGated: true } as const;
  return { ...shape, numTokens, numChoices: 8 * numTokens, ...changes };
}

test("planExpertGemm() takes small blocks for few tokens, persistent ones where WGMMA exists and fills the SMs", () => {
  const kernelsOf = (changes: Partial<ExpertGemmShape>): readonly string[] =>
    [1, 4, 16, 17, 8192].map((numTokens) => planExpertGemm(HOPPER, qwen(numTokens, changes)).kernel);
  assert.deepEqual(kernelsOf({}), ["skinny", "skinny", "wgmma", "wgmma", "wgmma"]);
  assert.deepEqual(kernelsOf({ weightType: "bf16" }), ["skinny", "skinny", "skinny", "wgmma", "wgmma"]);
  const second = kernelsOf({ inputs: 768, outputs: 2048, isGated: false });
  assert.deepEqual(second, Array(5).fill("wgmma"), "short rows pay most for the start of a skinny block");
  assert.deepEqual(
    [16, 17].map((numTokens) => planExpertGemm(AMPERE, qwen(numTokens)).kernel),
    ["skinny", "tiles"],
  );
});

test("planExpertGemm() gives tiles room for uneven choices", () => {
  const rowsOf = (numTokens: number): number => planExpertGemm(HOPPER, qwen(numTokens)).rows;
  assert.deepEqual([64, 256, 512, 1024, 8192].map(rowsOf), [16, 32, 64, 128, 128]);
});

test("planExpertGemm() sums in one order in the deterministic mode", () => {
  assert.equal(planExpertGemm(HOPPER, qwen(1, { isDeterministic: true })).kernel, "tiles");
  assert.equal(planExpertGemm(HOPPER, qwen(64, { isDeterministic: true })).kernel, "tiles");
  assert.equal(planExpertGemm(HOPPER, qwen(1, { outputs: 764 })).kernel, "wgmma");
});

test("planExpertGemm() keeps rings within shared memory, with a slot for each tile", () => {
  for (const weightType of ["bf16", "e4m3", "mxfp4"] as const) {
    for (let numTokens = 17; numTokens <= 8192; numTokens *= 2) {
      const plan = planExpertGemm(HOPPER, qwen(numTokens, { weightType }));
      assert.ok(plan.kernel === "wgmma");
      assert.ok(plan.weightStages >= 2 * plan.groups * plan.groupTiles && plan.rowStages >= 2);
      assert.ok(expertWgmmaSharedBytes(plan) <= 205 * 1024);
    }
  }
});
