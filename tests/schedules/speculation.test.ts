/**
 * Speculative decoding of nereid-tiny, its own weights in INT4 as draft model: token for token and bit for bit what comes
 * without, over the recorded prompts, greedy and drawn.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner, type DecoderCpuRunner } from "../../server/src/engine/cpu/cpu-runner.ts";
import { DEFAULT_ENGINE_CONFIG } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { ModelDrafter } from "../../server/src/engine/speculation/model-drafter.ts";
import { testSize } from "../support/long-tests.ts";
import { collectReal, lend, type RealOutput } from "./real-model.ts";

const FOLDER = fileURLToPath(new URL("../../examples/nereid-tiny/", import.meta.url));
const MODEL = { modelDir: `${FOLDER}language_model/`, blockSize: 16, numBlocks: 128, numThreads: 1 };
const RECORDED = JSON.parse(readFileSync(`${FOLDER}golden_text.json`, "utf8")) as readonly {
  readonly input_ids: readonly number[];
}[];
const SEEDS = testSize(1, 3);

let target: DecoderCpuRunner;
let draft: DecoderCpuRunner;
/** Without draft tokens. */
let expected: readonly RealOutput[];
let plainSteps: number;
before(async () => {
  target = await createDecoderRunner({ ...MODEL, isDeterministic: true });
  draft = await createDecoderRunner({ ...MODEL, weightType: "q4_0" });
  const plain = new LlmEngine(lend(target, target.numBlocks), DEFAULT_ENGINE_CONFIG);
  expected = await oneByOne(plain);
  plainSteps = plain.stats().iteration;
  await plain.close();
});
after(async () => {
  await target.close();
  await draft.close();
});

function requests(): GenerateRequest[] {
  return RECORDED.flatMap(({ input_ids: ids }) => {
    const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(ids), maxTokens: 32, logProbs: true };
    const drawn = { topK: 0, topP: 0.95, temperature: 0.9, repetitionPenalty: 1.1 };
    const seeds = Array.from({ length: SEEDS }, (_, i) => ({ ...request, ...drawn, seed: BigInt(i) }));
    return [request, ...seeds];
  });
}

async function oneByOne(engine: LlmEngine): Promise<RealOutput[]> {
  const outputs: RealOutput[] = [];
  for (const each of requests()) outputs.push(await collectReal(engine.generate(each)));
  return outputs;
}

const KINDS = [
  { name: "a draft model", ngramSize: 0, isDrafted: true, share: 0.4 },
  { name: "n-gram look-up", ngramSize: 3, isDrafted: false, share: 0 },
  { name: "both", ngramSize: 3, isDrafted: true, share: 0.2 },
] as const;

for (const { name, ngramSize, isDrafted, share } of KINDS) {
  test(`generate() with ${name} gives nereid-tiny's tokens to the bit, in fewer steps`, async (t) => {
    const speculation = { maxDraftTokens: 6, ngramSize };
    const drafter = isDrafted ? new ModelDrafter(lend(draft, draft.numBlocks), speculation, 512) : undefined;
    const config = { ...DEFAULT_ENGINE_CONFIG, speculation };
    const engine = new LlmEngine(lend(target, target.numBlocks), config, undefined, { drafter });
    assert.deepEqual(await oneByOne(engine), expected);
    const { draftTokens, acceptedDraftTokens, iteration } = engine.stats();
    t.diagnostic(
      `${acceptedDraftTokens} of ${draftTokens} draft tokens accepted, ${iteration} steps instead of ${plainSteps}`,
    );
    assert.ok(acceptedDraftTokens > 0 && acceptedDraftTokens >= share * draftTokens);
    assert.ok(iteration < plainSteps);
    await engine.close();
  });
}
