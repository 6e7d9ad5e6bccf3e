import assert from "node:assert/strict";
import { test } from "node:test";
import { ChoosingRunner } from "../../../../tests/fakes/choosing-runner.ts";
import { HashRunner } from "../../../../tests/fakes/hash-runner.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../engine-config.ts";
import { LlmEngine } from "../llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST, type Usage } from "../request/generate.ts";

/** So few ids that a text repeats itself and drafts are sometimes accepted. */
const VOCAB = 3;

function engineOf(config: Partial<EngineConfig> = {}, numBlocks = 64, vocabSize = VOCAB) {
  const runner = new HashRunner({ vocabSize, numBlocks, maxPositions: 200 });
  return { runner, engine: new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, ...config }) };
}

function request(prompt: readonly number[], changes: Partial<GenerateRequest> = {}): GenerateRequest {
  return { ...NEUTRAL_REQUEST, promptTokens: Int32Array.from(prompt), maxTokens: 40, ...changes };
}

interface Collected {
  readonly tokens: number[];
  readonly logProbs: number[];
  readonly logits: number[];
  readonly reason: string | undefined;
  readonly usage: Usage;
}

async function collect(chunks: AsyncIterable<GeneratedChunk>): Promise<Collected> {
  const [tokens, logProbs, logits]: number[][] = [[], [], []];
  let last: GeneratedChunk | undefined;
  for await (const chunk of chunks) {
    tokens?.push(...chunk.tokenIds);
    logProbs?.push(...chunk.logProbs);
    logits?.push(...(chunk.extras?.generationLogits ?? []));
    last = chunk;
  }
  assert.ok(last?.usage !== undefined && tokens && logProbs && logits, "a last chunk");
  return { tokens, logProbs, logits, reason: last.finishReason, usage: last.usage };
}

/** Every kind of rule that looks at the tokens before. */
function requests(): GenerateRequest[] {
  const kinds: Partial<GenerateRequest>[] = [
    {},
    { topK: 0, seed: 5n },
    { topK: 0, topP: 0.8, topPDecay: 0.9, topPMin: 0.1, topPResetId: 1, seed: 6n, temperature: 2 },
    { repetitionPenalty: 1.5, frequencyPenalty: 0.3, presencePenalty: 0.2 },
    { stopWords: [Int32Array.of(1, 2, 1)], badWords: [Int32Array.of(2, 2)] },
    { endIds: Int32Array.of(0), minTokens: 7 },
    { noRepeatNgramSize: 6, topK: 2, seed: 9n },
    { logProbs: true, generationLogits: true, topLogProbs: 2, promptLogProbs: true, contextLogits: true },
    { maxTokens: 1 },
    { maxTokens: 2 },
    { beamWidth: 2, maxTokens: 6 },
  ];
  return kinds.flatMap((kind, i) =>
    [1, 2, 9, 17].map((length) =>
      request(
        Array.from({ length }, (_, j) => (i + j * j) % VOCAB),
        kind,
      ),
    ),
  );
}

test("generate() gives with drafts what it gives without, for every rule, policy and budget", async () => {
  const plain = engineOf({ prefixReuse: false });
  const expected: Collected[] = [];
  for (const each of requests()) expected.push(await collect(plain.engine.generate(each)));
  await plain.engine.close();
  const configs: Partial<EngineConfig>[] = [
    {},
    { maxBatchTokens: 7 },
    { policy: "max_utilization", maxBatchTokens: 24 },
    { chunkedPrefill: false, maxSequences: 3 },
  ];
  for (const config of configs) {
    for (const maxDraftTokens of [1, 5]) {
      const { engine } = engineOf({ ...config, speculation: { maxDraftTokens, ngramSize: 3 } }, 28);
      const actual = await Promise.all(requests().map((each) => collect(engine.generate(each))));
      for (const [i, { usage, ...result }] of actual.entries()) {
        const { usage: _, ...wanted } = expected[i] ?? {};
        assert.deepEqual(result, wanted, `request ${i} with ${JSON.stringify(config)}`);
        assert.ok(usage.acceptedDraftTokens <= usage.draftTokens);
      }
      assert.ok(engine.stats().acceptedDraftTokens > 0, "no draft came true");
      engine.checkIntegrity();
      assert.equal(engine.stats().kvBlocksUsed, 0);
      await engine.close();
    }
  }
});

test("generate() tries the caller's draft tokens, and takes fewer steps where they come true", async () => {
  const plain = engineOf({}, 64, 50);
  const { tokens } = await collect(plain.engine.generate(request([3, 4, 5], { maxTokens: 12 })));
  await plain.engine.close();
  const cases = [
    { draftTokens: tokens.slice(0, 8), accepted: 8, steps: 12 - 8 },
    { draftTokens: [...tokens.slice(0, 3), 49 - (tokens[3] ?? 0), ...tokens.slice(4, 6)], accepted: 3, steps: 12 - 3 },
    { draftTokens: [...tokens, 1, 2, 3], accepted: 11, steps: 1 },
    { draftTokens: [49 - (tokens[0] ?? 0)], accepted: 0, steps: 12 },
  ];
  for (const { draftTokens, accepted, steps } of cases) {
    const { engine, runner } = engineOf({}, 64, 50);
    const drafted = request([3, 4, 5], { maxTokens: 12, draftTokens: Int32Array.from(draftTokens) });
    const result = await collect(engine.generate(drafted));
    assert.deepEqual(result.tokens, tokens);
    assert.equal(result.usage.acceptedDraftTokens, accepted);
    assert.equal(result.usage.draftTokens, Math.min(draftTokens.length, 11));
    assert.equal(runner.steps.length, steps);
    await engine.close();
  }
});

test("generate() takes a draft token that is likely enough when the request says so, and only then", async () => {
  for (const [draftAcceptanceThreshold, isTaken] of [
    [1e-9, true],
    [0.999, false],
    [0, false],
  ] as const) {
    const { engine } = engineOf({}, 64, 50);
    const [first = 0] = (await collect(engine.generate(request([3, 4, 5])))).tokens;
    const draft = (first + 1) % 50;
    const drafted = request([3, 4, 5], { draftTokens: Int32Array.of(draft), draftAcceptanceThreshold });
    const { tokens } = await collect(engine.generate(drafted));
    assert.equal(tokens[0], isTaken ? draft : first);
    const forbidden = await collect(engine.generate({ ...drafted, badWords: [Int32Array.of(draft)] }));
    assert.notEqual(forbidden.tokens[0], draft);
    await engine.close();
  }
});

test("generate() drafts no further than the request allows", async () => {
  const { engine, runner } = engineOf({ speculation: { maxDraftTokens: 5, ngramSize: 3 } });
  const { usage } = await collect(engine.generate(request([0, 1, 0, 1, 0], { maxDraftTokens: 0 })));
  assert.equal(usage.draftTokens, 0);
  const before = runner.steps.length;
  await collect(engine.generate(request([0, 1, 2, 0, 1, 2, 0], { maxDraftTokens: 1 })));
  assert.ok(runner.steps.slice(before + 1).every(({ numTokens }) => numTokens <= 2));
  await engine.close();
});

test("generate() plans steps ahead of their tokens where look-ups find nothing, and drafts again now and then", async () => {
  const asked = request([3, 4, 5], { maxTokens: 150 });
  const plain = engineOf({}, 64, 5000);
  const { tokens } = await collect(plain.engine.generate(asked));
  await plain.engine.close();
  const runner = new ChoosingRunner({ stepsAhead: true, vocabSize: 5000, maxPositions: 200 });
  const speculation = { maxDraftTokens: 4, ngramSize: 3 };
  const engine = new LlmEngine(runner, { ...DEFAULT_ENGINE_CONFIG, speculation });
  assert.deepEqual((await collect(engine.generate(asked))).tokens, tokens);
  // Pauses of 1, 2, 4 and so on up to 32 tokens between look-ups: nearly all steps run behind another.
  assert.ok(runner.numAhead > 120 && runner.numAhead < 149, `${runner.numAhead} of 150 steps ahead`);
  await engine.close();
});

test("generate() never lets drafts into the prefix cache", async () => {
  const { engine } = engineOf({}, 64, 50);
  // Eleven drafts, all wrong, over three blocks.
  const wrong = Int32Array.from({ length: 11 }, () => 7);
  const { tokens } = await collect(engine.generate(request([3, 4, 5], { maxTokens: 12, draftTokens: wrong })));
  assert.notEqual(tokens[0], 7);
  const { usage } = await collect(engine.generate(request([3, 4, 5, ...wrong, 1], { maxTokens: 1 })));
  assert.equal(usage.reusedBlocks, 0);
  await engine.close();
});

test("generate() refuses draft tokens that it cannot try", async () => {
  const { engine } = engineOf();
  const refused: readonly (readonly [Partial<GenerateRequest>, RegExp])[] = [
    [{ draftTokens: Int32Array.of(1, 3) }, /draft id 3 at position 1 is outside the vocabulary, expected 0 to 2/],
    [{ draftTokens: Int32Array.of(1), beamWidth: 2 }, /draft tokens are not supported together with beam search/],
    [{ draftAcceptanceThreshold: 1.5 }, /draft_acceptance_threshold is 1.5, expected 0 to 1/],
  ];
  for (const [changes, expected] of refused) {
    await assert.rejects(collect(engine.generate(request([1], changes))), expected);
  }
  await engine.close();
});
