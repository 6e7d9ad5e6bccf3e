/**
 * Engines of random settings under random loads, compared with an engine that has resources to spare. Sharing,
 * eviction, drafts, preemption and offloading must not change a request's tokens.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ChoosingRunner } from "../../../tests/fakes/choosing-runner.ts";
import { HashGuides } from "../../../tests/fakes/hash-guides.ts";
import { HashRunner, type HashRunnerOptions } from "../../../tests/fakes/hash-runner.ts";
import { testSize } from "../../../tests/support/long-tests.ts";
import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "./engine-config.ts";
import type { Retention } from "./kv/retention.ts";
import { LlmEngine } from "./llm-engine.ts";
import { type GeneratedChunk, type GenerateRequest, NEUTRAL_REQUEST } from "./request/generate.ts";
import { uniformAt } from "./sample/random.ts";

/** All of them by `npm run test:long`. */
const RUNS_PER_SEED = testSize(8, 40);
const FOR_EVER = Number.POSITIVE_INFINITY;

type Draw = (below: number) => number;

function drawRunner(draw: Draw): HashRunnerOptions {
  return {
    blockSize: 2 ** draw(4),
    numBlocks: 10 + draw(60),
    numHostBlocks: draw(2) * draw(80),
    maxPositions: 40 + draw(100),
    vocabSize: draw(2) === 0 ? 64 : 8, // few tokens, so that drafts are accepted
    ...(draw(2) === 0 ? {} : { window: 1 + draw(20) }),
  };
}

function drawConfig(draw: Draw): EngineConfig {
  return {
    ...DEFAULT_ENGINE_CONFIG,
    maxSequences: 3 + draw(8),
    maxBatchTokens: 1 + draw(40),
    chunkedPrefill: draw(3) > 0,
    prefixReuse: draw(4) > 0,
    policy: draw(2) === 0 ? "max_utilization" : "guaranteed_no_evict",
    speculation:
      draw(2) === 0 ? DEFAULT_ENGINE_CONFIG.speculation : { maxDraftTokens: 1 + draw(6), ngramSize: 1 + draw(3) },
  };
}

function drawRetention(draw: Draw): Retention | undefined {
  if (draw(4) > 0) return undefined;
  const durationMs = draw(2) === 0 ? FOR_EVER : draw(20);
  const decode = { priority: draw(101), durationMs: FOR_EVER };
  return { ranges: [{ start: 0, end: FOR_EVER, priority: draw(101), durationMs }], decode };
}

/** Prompts of few families, so that many begin alike. */
function drawRequest(draw: Draw, index: number): GenerateRequest {
  const family = draw(4);
  const promptTokens = Int32Array.from({ length: 1 + draw(35) }, (_, i) => (i < 12 ? family : draw(3)));
  const sampling = draw(3) > 0 ? {} : { topK: 0, topP: 0.9, seed: BigInt(index) };
  return {
    ...{ ...NEUTRAL_REQUEST, ...sampling, promptTokens, maxTokens: 1 + draw(40) },
    priority: draw(5) / 4,
    beamWidth: draw(8) === 0 ? 2 + draw(2) : 1,
    cacheSalt: draw(10) === 0 ? "x" : "",
    contextLogits: draw(12) === 0,
    retention: drawRetention(draw),
  };
}

/** Tokens and beams as text; "cancelled"; or the refusal. */
async function outcome(chunks: AsyncIterable<GeneratedChunk>): Promise<string> {
  const tokens: number[] = [];
  let last: GeneratedChunk | undefined;
  try {
    for await (const chunk of chunks) {
      tokens.push(...chunk.tokenIds);
      last = chunk;
    }
  } catch (error) {
    return String(error);
  }
  if (last?.finishReason === "cancelled") return "cancelled";
  const beams = last?.beams?.map(({ tokenIds }) => tokenIds.join()) ?? [];
  return [tokens.join(), ...beams].join(" | ");
}

/** Some are cancelled at random steps; those then have no outcome to compare. */
async function underLoad(
  makeRunner: (options: HashRunnerOptions) => HashRunner,
  requests: readonly GenerateRequest[],
  runner: HashRunnerOptions,
  config: EngineConfig,
  draw: Draw,
): Promise<{ readonly outcomes: string[]; readonly engine: LlmEngine }> {
  const cancellations = requests.map(() => ({
    controller: new AbortController(),
    step: draw(10) > 0 ? FOR_EVER : draw(60),
  }));
  const onStep = (_: unknown, step: number): void => {
    for (const each of cancellations) if (each.step <= step) each.controller.abort();
  };
  const services = { guides: new HashGuides(runner.vocabSize ?? 64) };
  const engine = new LlmEngine(makeRunner({ ...runner, onStep }), config, undefined, services);
  const outcomes: string[] = [];
  const half = Math.floor(requests.length / 2);
  for (const wave of [requests.slice(0, half), requests.slice(half)]) {
    const signals = cancellations.slice(outcomes.length);
    const all = wave.map((each, i) => outcome(engine.generate({ ...each, signal: signals[i]?.controller.signal })));
    outcomes.push(...(await Promise.all(all)));
    engine.checkIntegrity();
    assert.equal(engine.stats().kvBlocksUsed, 0);
  }
  return { outcomes, engine };
}

async function checkRun(
  draw: Draw,
  totals: { preemptions: number; onboarded: number; accepted: number },
): Promise<void> {
  const runner = drawRunner(draw);
  const config = drawConfig(draw);
  const requests = Array.from({ length: 5 + draw(40) }, (_, i) => drawRequest(draw, i));
  const { outcomes, engine } = await underLoad((options) => new HashRunner(options), requests, runner, config, draw);
  const plenty = { ...runner, numBlocks: 4000, numHostBlocks: 0 };
  const alone = new LlmEngine(new HashRunner(plenty), {
    ...DEFAULT_ENGINE_CONFIG,
    prefixReuse: false,
    maxBatchTokens: 4096,
  });
  const { maxSequenceLength } = engine.limits;
  for (const [i, request] of requests.entries()) {
    const actual = outcomes[i] ?? "";
    const room = maxSequenceLength - request.promptTokens.length;
    if (actual === "cancelled" || room <= 0 || / needs \d+ sequences and \d+ cache blocks/.test(actual)) continue;
    const expected = await outcome(alone.generate({ ...request, maxTokens: Math.min(room, request.maxTokens) }));
    assert.equal(actual, expected, `request ${i} of ${JSON.stringify({ runner, config })}`);
  }
  const { preemptions, kvBlocksOnboarded, acceptedDraftTokens } = engine.stats();
  if (config.policy === "guaranteed_no_evict") assert.equal(preemptions, 0);
  totals.preemptions += preemptions;
  totals.onboarded += kvBlocksOnboarded;
  totals.accepted += acceptedDraftTokens;
  await engine.close();
  await alone.close();
}

const TOTALS = { preemptions: 0, onboarded: 0, accepted: 0 };

for (const seed of [1, 2, 3]) {
  test(`random engines give each request what it gets alone, losing no block (seed ${seed})`, async () => {
    let draws = 0;
    const draw: Draw = (below) => Math.floor(uniformAt(seed, 11, draws++) * below);
    for (let i = 0; i < RUNS_PER_SEED; i++) await checkRun(draw, TOTALS);
  });
}

test("the random engines met every shortage", () => {
  for (const [what, count] of Object.entries(TOTALS)) assert.ok(count > 0, what);
});

/** Rules that need each token before the next is chosen. */
const RULES: readonly Partial<GenerateRequest>[] = [
  { repetitionPenalty: 1.3 },
  { presencePenalty: 0.6, frequencyPenalty: 0.4, temperature: 0.9, topK: 7, seed: 5n },
  { repetitionPenalty: 1.2, logitBias: new Float32Array(64).fill(2, 5, 30) },
  { logitBias: new Float32Array(64).fill(-3, 0, 9), temperature: 1, topPDecay: 0.7, topP: 0.8, seed: 6n },
  { temperature: 1, topP: 0.9, topPDecay: 0.8, topPMin: 0.2, seed: 4n },
  { badWords: [Int32Array.of(3, 5), Int32Array.of(7)] },
  { noRepeatNgramSize: 2 },
  { topLogProbs: 2, logProbs: true },
  { guide: { type: "regex", text: "a" }, endIds: Int32Array.of(2) },
  {
    guide: { type: "regex", text: "abc" },
    endIds: Int32Array.of(3),
    temperature: 1,
    topP: 0.9,
    seed: 7n,
    minTokens: 4,
  },
  {
    guide: { type: "json", text: "" },
    endIds: Int32Array.of(5),
    badWords: [Int32Array.of(4, 1)],
    repetitionPenalty: 1.2,
  },
  { topLogProbs: 21, logProbs: true },
];

/** Ends of every kind, sampled and greedy; now and then rules that need each token, or several rows of a step. */
function drawAheadRequest(draw: Draw, index: number): GenerateRequest {
  const { contextLogits, beamWidth, ...request } = drawRequest(draw, index);
  const isManyRowed = draw(20) === 0;
  return {
    ...request,
    contextLogits: isManyRowed && contextLogits,
    beamWidth: isManyRowed ? beamWidth : 1,
    repetitionPenalty: 1,
    logProbs: draw(3) === 0,
    endIds: draw(2) === 0 ? Int32Array.of(draw(8), draw(64)) : request.endIds,
    stopWords: draw(3) === 0 ? [Int32Array.of(draw(8)), Int32Array.of(draw(64), draw(64))] : [],
    ...(isManyRowed || draw(3) > 0 ? {} : RULES[draw(RULES.length)]),
  };
}

const AHEAD_TOTALS = { preemptions: 0, ahead: 0, onboarded: 0, seen: 0, late: 0, accepted: 0 };

for (const seed of [4, 5, 6]) {
  test(`engines that plan a step while another runs give each request what it gets alone (seed ${seed})`, async () => {
    let draws = 0;
    const draw: Draw = (below) => Math.floor(uniformAt(seed, 13, draws++) * below);
    const totals = AHEAD_TOTALS;
    for (let i = 0; i < RUNS_PER_SEED; i++) {
      const options = drawRunner(draw);
      const drawn = drawConfig(draw);
      const config = i % 2 === 0 ? drawn : { ...drawn, speculation: DEFAULT_ENGINE_CONFIG.speculation };
      const requests = Array.from({ length: 5 + draw(40) }, (_, at) => drawAheadRequest(draw, at));
      const runners: ChoosingRunner[] = [];
      const ruleTables = { numCountRows: draw(8), numBiasRows: draw(4) };
      const choosesLate = draw(3) > 0;
      const makeRunner = (each: HashRunnerOptions): ChoosingRunner => {
        const runner = new ChoosingRunner({ ...each, stepsAhead: true, ruleTables, choosesLate });
        runners.push(runner);
        return runner;
      };
      const { outcomes, engine } = await underLoad(makeRunner, requests, options, config, draw);
      const alone = new LlmEngine(
        new HashRunner({ ...options, numBlocks: 4000, numHostBlocks: 0 }),
        { ...DEFAULT_ENGINE_CONFIG, prefixReuse: false, maxBatchTokens: 4096 },
        undefined,
        { guides: new HashGuides(options.vocabSize ?? 64) },
      );
      for (const [at, request] of requests.entries()) {
        const actual = outcomes[at] ?? "";
        const room = engine.limits.maxSequenceLength - request.promptTokens.length;
        if (actual === "cancelled" || room <= 0 || / needs \d+ sequences and \d+ cache blocks/.test(actual)) continue;
        const plain = { ...request, maxTokens: Math.min(room, request.maxTokens), maxDraftTokens: 0 };
        const expected = await outcome(alone.generate(plain));
        assert.doesNotMatch(expected, /Internal/);
        assert.equal(actual, expected, `request ${at} of ${JSON.stringify({ options, config })}`);
      }
      const { preemptions, kvBlocksOnboarded, acceptedDraftTokens } = engine.stats();
      totals.preemptions += preemptions;
      totals.onboarded += kvBlocksOnboarded;
      totals.ahead += runners[0]?.numAhead ?? 0;
      totals.seen += runners[0]?.numSeen ?? 0;
      totals.late += runners[0]?.numLate ?? 0;
      totals.accepted += acceptedDraftTokens;
      await engine.close();
      await alone.close();
    }
  });
}

test("the engines that plan ahead met every shortage", () => {
  for (const [what, count] of Object.entries(AHEAD_TOTALS)) assert.ok(count > 0, what);
});
