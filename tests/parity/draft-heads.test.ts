/** Draft heads against what torch drafts with the same files (record_draft_heads.py), and engines that draft with them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createDecoderRunner, type DecoderRunnerOptions } from "../../server/src/engine/cpu/cpu-runner.ts";
import { createCpuDraftHead } from "../../server/src/engine/cpu/draft-head.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";
import type { Drafter } from "../../server/src/engine/speculation/drafter.ts";
import { HeadDrafter } from "../../server/src/engine/speculation/head-drafter.ts";

const FOLDER = fileURLToPath(new URL("draft-heads/", import.meta.url));

const BLOCK_SIZE = 16;

interface Recorded {
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
  readonly drafts: readonly { readonly length: number; readonly chain: readonly number[] }[];
}

interface Model {
  readonly name: string;
  readonly modelDir: string;
  readonly headDir: string;
  readonly recorded: readonly Recorded[];
}

function modelOf(name: string, model: string, head: string): Model {
  const recorded = JSON.parse(readFileSync(`${FOLDER}${name}/expected.json`, "utf8")) as readonly Recorded[];
  return { name, modelDir: FOLDER + model, headDir: FOLDER + head, recorded };
}

const EAGLE = modelOf("llama", "llama/model", "llama/eagle3");
const MTP = modelOf("deepseek", "deepseek", "deepseek");

interface Opened {
  readonly engine: LlmEngine;
  readonly drafter: HeadDrafter;
  /** Each proposal of one sequence or more, in order. */
  readonly proposals: (readonly number[])[];
}

async function open(
  t: TestContext,
  { modelDir, headDir }: Model,
  config: Partial<EngineConfig> = {},
  options: Partial<DecoderRunnerOptions> = {},
): Promise<Opened> {
  const runner = await createDecoderRunner({
    modelDir,
    blockSize: BLOCK_SIZE,
    numBlocks: 64,
    numThreads: 1,
    ...options,
  });
  const speculation = { maxDraftTokens: 4, ngramSize: 0 };
  const head = await createCpuDraftHead(runner, { headDir, numSpareBlocks: 16 });
  const drafter = new HeadDrafter(head, runner, speculation, config.maxBatchTokens ?? 512);
  const proposals: (readonly number[])[] = [];
  const watched: Drafter = {
    propose: async (sequences) => {
      const all = [...sequences];
      await drafter.propose(all);
      for (const { numDrafts, numTokens, tokens } of all)
        if (numDrafts > 0) proposals.push([...tokens.subarray(numTokens, numTokens + numDrafts)]);
    },
    forget: (sequence: Sequence) => drafter.forget(sequence),
    close: () => drafter.close(),
  };
  const whole = { ...DEFAULT_ENGINE_CONFIG, ...config, speculation };
  const engine = new LlmEngine(runner, whole, undefined, { drafter: watched });
  t.after(() => engine.close());
  return { engine, drafter, proposals };
}

async function generate(
  engine: LlmEngine,
  prompt: readonly number[],
  changes: Partial<GenerateRequest> = {},
): Promise<number[]> {
  const tokens: number[] = [];
  const request = { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens: 8, ...changes };
  for await (const { tokenIds } of engine.generate(request)) tokens.push(...tokenIds);
  return tokens;
}

for (const model of [EAGLE, MTP]) {
  test(`a head of ${model.name} drafts the chains that torch drafts, whether its prompt was reused or not`, async (t) => {
    const { engine, proposals } = await open(t, model);
    let numChains = 0;
    for (const { prompt, tokens, drafts } of model.recorded) {
      const text = [...prompt, ...tokens];
      assert.deepEqual(await generate(engine, prompt, { maxTokens: tokens.length }), tokens);
      for (const { length, chain } of drafts) {
        // A block that another request has filled alike takes the place of its own, whose last row waits in vain.
        if ((length - 1) % BLOCK_SIZE === 0) continue;
        proposals.length = 0;
        // The first token of the answer is the last of these.
        const made = await generate(engine, text.slice(0, length - 1));
        assert.equal(made[0], text[length - 1]);
        assert.deepEqual(proposals[0], chain, `behind ${length} tokens`);
        numChains += 1;
      }
    }
    assert.ok(numChains >= 12, `${numChains} chains`);
    const { draftTokens, acceptedDraftTokens } = engine.stats();
    assert.ok(acceptedDraftTokens > 0, `${acceptedDraftTokens} of ${draftTokens} draft tokens are right`);
  });

  test(`an engine with a head of ${model.name} says what it says without, in company and in chunks`, async (t) => {
    const isDeterministic = model === EAGLE;
    const prompts = model.recorded.map(({ prompt, tokens }) => [...prompt, ...tokens, ...prompt, ...tokens, ...prompt]);
    const kinds: readonly Partial<GenerateRequest>[] = [
      {},
      { temperature: 0.7, topK: 0, topP: 0.9, seed: 5n },
      { repetitionPenalty: 1.2, temperature: 1, topK: 20, seed: 6n },
    ];
    const plain = await open(t, model, {}, { isDeterministic });
    for (const maxBatchTokens of [512, 24]) {
      const { engine, drafter } = await open(t, model, { maxBatchTokens }, { isDeterministic });
      for (const kind of kinds) {
        const changes = { ...kind, maxTokens: 20 };
        const together = await Promise.all(prompts.map((prompt) => generate(engine, prompt, changes)));
        for (const [i, prompt] of prompts.entries())
          assert.deepEqual(together[i], await generate(plain.engine, prompt, { ...changes, maxDraftTokens: 0 }));
      }
      assert.ok(engine.stats().draftTokens > 0);
      assert.ok(drafter.numWaiting < 200, `${drafter.numWaiting} rows wait`);
      engine.checkIntegrity();
    }
  });
}
