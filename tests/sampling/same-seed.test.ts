/** The deterministic mode as requests see it: one seed gives one text, alone and in company, whatever the step's budget. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { engineOf, generateTokens } from "../../server/src/engine/testing/generation.ts";
import { testSize } from "../support/long-tests.ts";
import { createRandom } from "../support/random.ts";

const MODEL = fileURLToPath(new URL("../../examples/nereid-tiny/language_model/", import.meta.url));
const NUM_REQUESTS = testSize(8, 48);

function requests(): GenerateRequest[] {
  const random = createRandom(20);
  return Array.from({ length: NUM_REQUESTS }, (_, i) => ({
    ...NEUTRAL_REQUEST,
    promptTokens: Int32Array.from({ length: 1 + random.below(60) }, () => 3 + random.below(6000)),
    maxTokens: 8 + random.below(16),
    seed: BigInt(i % 3 === 0 ? 5 : 100 + i),
    temperature: random.pick([0.7, 1, 1.4]),
    topK: random.pick([0, 0, 40]),
    topP: random.pick([1, 0.9]),
    minP: random.pick([0, 0.02]),
    repetitionPenalty: random.pick([1, 1, 1.3]),
  }));
}

test("generate() gives the same text for the same seed alone and in company, deterministic", async () => {
  const answers: number[][][] = [];
  for (const maxBatchTokens of [512, 19]) {
    const sizes = { modelDir: MODEL, blockSize: 16, numBlocks: 512, numThreads: 1, isDeterministic: true };
    const engine = engineOf(await createDecoderRunner(sizes), { maxBatchTokens, prefixReuse: false });
    const alone: number[][] = [];
    if (maxBatchTokens === 512)
      for (const request of requests()) alone.push(...(await generateTokens(engine, [request])));
    answers.push(...(alone.length > 0 ? [alone] : []), await generateTokens(engine, requests()));
    await engine.close();
  }
  const [alone, ...others] = answers;
  assert.equal(others.length, 2);
  assert.equal(new Set(alone?.map((tokens) => tokens.join())).size, NUM_REQUESTS);
  for (const together of others) assert.deepEqual(together, alone);
});
