import assert from "node:assert/strict";
import { test } from "node:test";
import { gemmRows } from "../../device/cuda/dense-gemm.ts";
import { checkStep } from "../plan/check-step.ts";
import { planWarmUp, type WarmUpBounds, type WarmUpStep, warmUpInput } from "./warm-up-plan.ts";

const SIZES: readonly WarmUpBounds[] = [
  { maxTokens: 8192, maxSequences: 256, maxPositions: 131_072, blockSize: 32, numBlocks: 12_000 },
  { maxTokens: 2048, maxSequences: 1024, maxPositions: 4096, blockSize: 32, numBlocks: 9000 },
  { maxTokens: 512, maxSequences: 64, maxPositions: 8192, blockSize: 16, numBlocks: 600 },
  { maxTokens: 128, maxSequences: 12, maxPositions: 128, blockSize: 16, numBlocks: 24 },
  { maxTokens: 32, maxSequences: 4, maxPositions: 64, blockSize: 16, numBlocks: 5 },
  { maxTokens: 16, maxSequences: 64, maxPositions: 100, blockSize: 32, numBlocks: 3 },
  { maxTokens: 1, maxSequences: 1, maxPositions: 2, blockSize: 32, numBlocks: 2 },
];

const LIMITS = { vocabSize: 100, hiddenSize: 8, hasAxes: false, numHostBlocks: 0, window: undefined };

/** The rows that GEMMs of a step are computed with. */
function rowsOf({ numDecoding, promptTokens }: WarmUpStep): number {
  return gemmRows(numDecoding + promptTokens);
}

for (const bounds of SIZES) {
  const { maxTokens, maxSequences, numBlocks } = bounds;
  const title = `${maxTokens} tokens of ${maxSequences} sequences in ${numBlocks} blocks`;

  test(`planWarmUp() plans steps that a runner takes, for ${title}`, () => {
    const written = new Set<number>();
    for (const step of planWarmUp(bounds)) {
      const input = warmUpInput(step, bounds);
      checkStep(input, { ...LIMITS, ...bounds });
      assert.ok(input.tokenIds.length <= maxTokens && input.sequences.length <= maxSequences, step.name);
      for (const slot of input.slots) written.add(slot);
      for (const { blockTable, contextLength } of input.sequences) {
        for (let position = 0; position < contextLength; position++) {
          const block = blockTable[Math.floor(position / bounds.blockSize)] ?? -1;
          assert.ok(written.has(block * bounds.blockSize + (position % bounds.blockSize)), step.name);
        }
      }
    }
  });

  test(`planWarmUp() has every batch size and every size of a prompt once, for ${title}`, () => {
    const steps = planWarmUp(bounds);
    assert.equal(new Set(steps.map(({ name }) => name)).size, steps.length);
    const decoding = new Set(steps.filter(({ promptTokens }) => promptTokens === 0).map(rowsOf));
    const batches = Math.min(maxSequences, maxTokens, numBlocks - 1);
    for (let count = 1; count <= batches; count++) assert.ok(decoding.has(gemmRows(count)), `${count} sequences`);
    const prompts = new Set(steps.filter(({ promptTokens }) => promptTokens > 0).map(rowsOf));
    const longest = Math.max(...steps.map(({ promptTokens }) => promptTokens));
    for (let length = 1; length <= longest; length++) assert.ok(prompts.has(gemmRows(length)), `${length} tokens`);
  });
}

test("planWarmUp() begins with what most requests need", () => {
  const [bounds] = SIZES;
  assert.ok(bounds !== undefined);
  const names = planWarmUp(bounds).map(({ name }) => name);
  const at = (name: string): number => names.indexOf(name);
  assert.ok(at("prompt of 128") < at("1 sequences of 16 blocks"));
  assert.ok(at("256 sequences of 16 blocks") < at("1 sequences of 32 blocks"));
  assert.ok(at("64 sequences of 64 blocks") < at("prompt of 1152"));
  assert.ok(names.filter((name) => name.includes("blocks")).length <= 96);
});
