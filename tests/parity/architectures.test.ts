/**
 * Each further architecture, and each again with other fields, against what Hugging Face transformers computed with the same
 * tiny model (record_architectures.py): a whole prompt, then token by token; and the prompt in chunks over scattered blocks.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { maxDifference } from "../../server/kernels/testing/run-op.ts";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { append, argmax, contiguousBlocks, TestSequence } from "../../server/src/engine/testing/sequences.ts";

interface Expected {
  readonly prompt: readonly number[];
  readonly greedy: readonly number[];
  /** From which each greedy token was taken. */
  readonly logits: readonly (readonly number[])[];
}

const MODELS = fileURLToPath(new URL("architectures/", import.meta.url));
/** Largest difference of logits. Recorded logits have five decimals. */
const BOUND = 1e-4;
const SHAPE = { numBlocks: 48, blockSize: 4, numThreads: 1 };
const NUM_BLOCKS = 16;
const SCATTERED = contiguousBlocks(0, NUM_BLOCKS).map((i) => 16 + ((i * 11 + 5) % 32));
const CHUNKS = [
  [0, 1],
  [1, 7],
  [7, 23],
  [23, undefined],
] as const;

for (const name of readdirSync(MODELS).sort()) {
  test(`${name} gives the recorded tokens and logits`, async (t) => {
    const modelDir = `${MODELS}${name}`;
    const expected = JSON.parse(readFileSync(`${modelDir}/expected.json`, "utf8")) as Expected;
    const runner = await createDecoderRunner({ ...SHAPE, modelDir });
    t.after(() => runner.close());
    const whole = new TestSequence(contiguousBlocks(0, NUM_BLOCKS));
    const chosen: number[] = [];
    let off = 0;
    let tokens = expected.prompt;
    for (const logits of expected.logits) {
      const [actual = new Float32Array()] = await append(runner, [{ sequence: whole, tokens }]);
      off = Math.max(off, maxDifference(actual, logits));
      tokens = [argmax(actual)];
      chosen.push(...tokens);
    }
    const parts = new TestSequence(SCATTERED, undefined, 1);
    let last = new Float32Array();
    for (const [start, end] of CHUNKS) {
      const [actual = last] = await append(runner, [{ sequence: parts, tokens: expected.prompt.slice(start, end) }]);
      last = Float32Array.from(actual);
    }
    off = Math.max(off, maxDifference(last, expected.logits[0] ?? []));
    t.diagnostic(`largest logit difference ${off.toExponential(1)}`);
    assert.ok(off < BOUND, `logits are off by ${off}`);
    assert.deepEqual(chosen, expected.greedy);
  });
}
