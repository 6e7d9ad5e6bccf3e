import assert from "node:assert/strict";
import { test } from "node:test";
import { HashRunner, type HashRunnerOptions } from "../../../../tests/fakes/hash-runner.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GenerateRequest, NEUTRAL_REQUEST, type Usage } from "../request/generate.ts";
import { ModelDrafter } from "./model-drafter.ts";

const SPECULATION = { maxDraftTokens: 6, ngramSize: 0 };
const VOCAB = 40;

interface Setting {
  readonly config?: Partial<EngineConfig>;
  readonly numBlocks?: number;
  readonly draft?: HashRunnerOptions;
}

function engineWithDraft({ config = {}, numBlocks = 64, draft = {} }: Setting = {}) {
  const target = new HashRunner({ vocabSize: VOCAB, numBlocks });
  const small = new HashRunner({ vocabSize: VOCAB, ...draft });
  const merged = { ...DEFAULT_ENGINE_CONFIG, speculation: SPECULATION, ...config };
  const drafter = new ModelDrafter(small, SPECULATION, merged.maxBatchTokens);
  const engine = new LlmEngine(target, merged, undefined, { drafter });
  return { target, small, drafter, engine };
}

function requests(): GenerateRequest[] {
  const kinds: Partial<GenerateRequest>[] = [
    {},
    { topK: 0, seed: 2n ** 63n + 5n, temperature: 1.5 },
    { topK: 5, topP: 0.9, topPDecay: 0.9, seed: 7n, repetitionPenalty: 1.2 },
    { topK: 0, minP: 0.1, seed: 8n, badWords: [Int32Array.of(3)], noRepeatNgramSize: 2 },
    { endIds: Int32Array.of(1, 2), minTokens: 5 },
    { stopWords: [Int32Array.of(9)] },
  ];
  return kinds.flatMap((kind, i) =>
    [1, 7, 30].map((length) => ({
      ...NEUTRAL_REQUEST,
      promptTokens: Int32Array.from({ length }, (_, j) => (i * 3 + j * j) % VOCAB),
      maxTokens: 25,
      ...kind,
    })),
  );
}

async function collect(engine: LlmEngine, request: GenerateRequest): Promise<{ tokens: number[]; usage: Usage }> {
  const tokens: number[] = [];
  let usage: Usage | undefined;
  for await (const chunk of engine.generate(request)) {
    tokens.push(...chunk.tokenIds);
    usage = chunk.usage;
  }
  assert.ok(usage !== undefined, "a last chunk");
  return { tokens, usage };
}

async function plainOutputs(): Promise<number[][]> {
  const engine = new LlmEngine(new HashRunner({ vocabSize: VOCAB }), DEFAULT_ENGINE_CONFIG);
  const outputs: number[][] = [];
  for (const each of requests()) outputs.push((await collect(engine, each)).tokens);
  await engine.close();
  return outputs;
}

test("propose() drafts every token right when both models are the same, sampled tokens too", async () => {
  const { target, engine } = engineWithDraft();
  const expected = await plainOutputs();
  let numSteps = 0;
  for (const [i, each] of requests().entries()) {
    const { tokens, usage } = await collect(engine, each);
    assert.deepEqual(tokens, expected[i]);
    // The token that ends the sequence leaves unverified drafts after it.
    assert.equal(usage.acceptedDraftTokens, usage.draftTokens);
    numSteps = target.steps.length;
  }
  const numTokens = expected.reduce((sum, tokens) => sum + tokens.length, 0);
  assert.ok(numSteps < numTokens / 2, `${numSteps} steps for ${numTokens} tokens`);
  await engine.close();
});

test("generate() gives with a draft model what it gives without, whatever that model says and however little it holds", async () => {
  const expected = await plainOutputs();
  const settings: Setting[] = [
    {},
    { draft: { blockSize: 5, numBlocks: 9 } },
    { draft: { maxPositions: 20 } },
    { config: { maxBatchTokens: 6 } },
    { config: { policy: "max_utilization" }, numBlocks: 18 },
    { draft: { isOther: true } },
  ];
  for (const setting of settings) {
    const { engine, drafter } = engineWithDraft(setting);
    const results = await Promise.all(requests().map((each) => collect(engine, each)));
    assert.deepEqual(
      results.map(({ tokens }) => tokens),
      expected,
    );
    const { draftTokens, acceptedDraftTokens } = engine.stats();
    assert.ok(draftTokens > 0);
    assert.equal(acceptedDraftTokens > draftTokens / 4, setting.draft?.isOther !== true);
    engine.checkIntegrity();
    assert.equal(drafter.numFreeBlocks, setting.draft?.numBlocks ?? 64);
    await engine.close();
  }
});

test("close() of an engine closes the draft model", async () => {
  const { engine, small } = engineWithDraft();
  await engine.close();
  assert.ok(small.isClosed);
});
