/**
 * Every architecture against what Hugging Face transformers computed with the same tiny model (record.py). Whole
 * prompts, chunks over scattered blocks, ragged batches and narrow types must all give the recorded logits.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner, type DecoderCpuRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";

interface Expected {
  readonly prompt: readonly number[];
  readonly greedy: readonly number[];
  /** From which each greedy token was taken. */
  readonly logits: readonly (readonly number[])[];
}

const MODELS = fileURLToPath(new URL("models/", import.meta.url));
/**
 * Bounds on the largest difference of logits. In f32 2e-3 is promised; the tighter bound also tells the two forms of
 * gelu apart. Recorded logits have five decimals.
 */
const F32_BOUND = 1e-4;
const BF16_BOUND = 3e-2;
const SHAPE = { numBlocks: 64, blockSize: 4, numThreads: 1 };
/** Some models turn sequences otherwise that are served up to another length. */
const MAX_POSITIONS: ReadonlyMap<string, number> = new Map([["phi-3-longrope-short", 64]]);
const NUM_BLOCKS = 32;
const SCATTERED = contiguousBlocks(0, NUM_BLOCKS).map((i) => (i * 37 + 11) % SHAPE.numBlocks);

for (const name of readdirSync(MODELS).sort()) {
  describe(name, () => {
    const modelDir = `${MODELS}${name}`;
    const expected = JSON.parse(readFileSync(`${modelDir}/expected.json`, "utf8")) as Expected;
    const maxPositions = MAX_POSITIONS.get(name);
    const [first = []] = expected.logits;
    let runner: DecoderCpuRunner;
    before(async () => {
      runner = await createDecoderRunner({ ...SHAPE, modelDir, maxPositions });
    });
    after(() => runner.close());

    test("run() gives the recorded tokens and logits, decoding after a whole prompt", async (t) => {
      const sequence = new TestSequence(contiguousBlocks(3, NUM_BLOCKS));
      const chosen: number[] = [];
      let off = 0;
      let tokens = expected.prompt;
      for (const logits of expected.logits) {
        const [actual = new Float32Array()] = await append(runner, [{ sequence, tokens }]);
        off = Math.max(off, maxDifference(actual, logits));
        tokens = [argmax(actual)];
        chosen.push(...tokens);
      }
      t.diagnostic(`largest logit difference ${off.toExponential(1)}`);
      assert.deepEqual(chosen, expected.greedy);
      assert.ok(off < F32_BOUND, `logits are off by ${off}`);
    });

    test("run() gives the recorded logits in chunks over scattered blocks", async () => {
      const sequence = new TestSequence(SCATTERED);
      let actual: Float32Array = new Float32Array();
      for (const [start, end] of [
        [0, 1],
        [1, 7],
        [7, 33],
        [33, undefined],
      ] as const) {
        [actual = actual] = await append(runner, [{ sequence, tokens: expected.prompt.slice(start, end) }]);
      }
      assert.ok(maxDifference(actual, first) < F32_BOUND, `logits are off by ${maxDifference(actual, first)}`);
    });

    test("run() gives the recorded logits in a ragged batch", async () => {
      const { prompt, greedy, logits } = expected;
      const decoding = new TestSequence(contiguousBlocks(0, NUM_BLOCKS));
      const whole = new TestSequence(contiguousBlocks(NUM_BLOCKS, NUM_BLOCKS));
      await append(runner, [{ sequence: decoding, tokens: prompt }]);
      const [second, again] = await append(runner, [
        { sequence: decoding, tokens: greedy.slice(0, 1) },
        { sequence: whole, tokens: prompt },
      ]);
      assert.ok(maxDifference(second ?? [], logits[1] ?? []) < F32_BOUND);
      assert.ok(maxDifference(again ?? [], first) < F32_BOUND);
    });

    test("run() stays near the recorded logits with bf16 weights", async (t) => {
      const narrow = await createDecoderRunner({ ...SHAPE, modelDir, maxPositions, weightType: "bf16" });
      const sequence = new TestSequence(contiguousBlocks(0, NUM_BLOCKS));
      const [actual = new Float32Array()] = await append(narrow, [{ sequence, tokens: expected.prompt }]);
      await narrow.close();
      const off = maxDifference(actual, first);
      t.diagnostic(`largest logit difference ${off.toExponential(1)}`);
      assert.ok(off < BF16_BOUND, `logits are off by ${off}`);
    });
  });
}
