/** Checkpoints of FP8 and of integers against what torch computed with the numbers they stand for. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { append, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";

const FOLDER = fileURLToPath(new URL("quantized/", import.meta.url));
/** 2e-3 is promised where all is f32; those recorded have five decimals. */
const BOUND = 1e-4;
/** Blocks with a zero of their own keep it times the scale, as a half. */
const ZEROS_BOUND = 1e-2;
/** Products of blocks round what they are multiplied with to 8 bits too. */
const BLOCKS_BOUND = 6e-2;

for (const name of readdirSync(FOLDER).sort()) {
  test(`a checkpoint of ${name} gives the recorded logits`, async (t) => {
    const modelDir = `${FOLDER}${name}`;
    const { prompt: tokens, logits } = JSON.parse(readFileSync(`${modelDir}/expected.json`, "utf8")) as {
      readonly prompt: readonly number[];
      readonly logits: readonly number[];
    };
    for (const [weightType, bound] of [
      ["f32", name === "int4-zeros" ? ZEROS_BOUND : BOUND],
      [undefined, name.startsWith("fp8") ? BOUND : BLOCKS_BOUND],
    ] as const) {
      const runner = await createDecoderRunner({ modelDir, numBlocks: 8, blockSize: 16, numThreads: 1, weightType });
      const [actual = []] = await append(runner, [{ sequence: new TestSequence(contiguousBlocks(0, 2)), tokens }]);
      await runner.close();
      const off = maxDifference(actual, logits);
      t.diagnostic(`${weightType ?? "as stored"}: largest logit difference ${off.toExponential(1)}`);
      assert.ok(off < bound, `${weightType}: logits are off by ${off}`);
    }
  });
}
