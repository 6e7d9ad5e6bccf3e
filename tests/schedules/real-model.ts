/** Random loads for a real model on a shared runner: what each request gives alone, and what it gives in company. */

import { DEFAULT_ENGINE_CONFIG, type EngineConfig } from "../../server/src/engine/engine-config.ts";
import { LlmEngine } from "../../server/src/engine/llm-engine.ts";
import type { GeneratedChunk, GenerateRequest } from "../../server/src/engine/request/generate.ts";
import { NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import type { StepRunner } from "../../server/src/engine/step-runner.ts";
import { createRandom, type Random } from "../support/random.ts";

export interface RealOutput {
  readonly tokens: readonly number[];
  readonly logProbs: readonly number[];
  /** How much likelier the best token was than the second, for each. */
  readonly margins: readonly number[];
}

export interface RealLoad {
  readonly seed: number;
  readonly numBlocks: number;
  readonly config: EngineConfig;
  readonly requests: readonly GenerateRequest[];
}

/** Greedy requests only where `isGreedy`: a draw has no margin to look at. */
export function createLoad(seed: number, vocabSize: number, isGreedy: boolean): RealLoad {
  const random = createRandom(seed);
  const prompts = [0, 1].map(() => Array.from({ length: 24 }, () => 6 + random.below(vocabSize - 6)));
  return {
    seed,
    numBlocks: 8 + random.below(4),
    config: {
      ...DEFAULT_ENGINE_CONFIG,
      maxSequences: 2 + random.below(5),
      maxBatchTokens: 1 + random.below(40),
      prefixReuse: random.below(4) > 0,
      policy: random.pick(["max_utilization", "guaranteed_no_evict"] as const),
      speculation: { maxDraftTokens: random.pick([0, 4]), ngramSize: 3 },
    },
    requests: Array.from({ length: 4 + random.below(3) }, () => randomRequest(random, prompts, isGreedy)),
  };
}

function randomRequest(random: Random, prompts: readonly (readonly number[])[], isGreedy: boolean): GenerateRequest {
  const prompt = random.pick(prompts).slice(0, 2 + random.below(21));
  const repeats = random.below(3) === 0 ? [...prompt, ...prompt] : prompt; // something to look up
  return {
    ...NEUTRAL_REQUEST,
    promptTokens: Int32Array.from(repeats),
    maxTokens: 4 + random.below(14),
    logProbs: true,
    topLogProbs: 2,
    ...(isGreedy || random.below(2) === 0
      ? {}
      : { topK: 0, topP: 0.95, temperature: 1.2, seed: BigInt(random.below(1e9)) }),
  };
}

/** The same load with the callers' own draft tokens: mostly right, sometimes wrong. */
export function withDrafts(load: RealLoad, outputs: readonly RealOutput[]): RealLoad {
  const random = createRandom(load.seed);
  const requests = load.requests.map((request, i) => {
    const draftTokens = Int32Array.from(outputs[i]?.tokens ?? []);
    if (random.below(2) === 0) draftTokens[random.below(draftTokens.length)] = 7;
    return random.below(3) === 0 ? request : { ...request, draftTokens };
  });
  return { ...load, requests };
}

/** Each request alone, in an engine with room for anything. */
export async function outputsAlone(runner: StepRunner, { requests }: RealLoad): Promise<RealOutput[]> {
  const outputs: RealOutput[] = [];
  const engine = new LlmEngine(lend(runner, runner.numBlocks), { ...DEFAULT_ENGINE_CONFIG, prefixReuse: false });
  for (const request of requests) outputs.push(await collectReal(engine.generate(request)));
  await engine.close();
  return outputs;
}

export async function outputsTogether(
  runner: StepRunner,
  { requests, numBlocks, config }: RealLoad,
): Promise<{ readonly outputs: RealOutput[]; readonly acceptedDraftTokens: number; readonly preemptions: number }> {
  const engine = new LlmEngine(lend(runner, numBlocks), config);
  const outputs = await Promise.all(requests.map((request) => collectReal(engine.generate(request))));
  engine.checkIntegrity();
  const { acceptedDraftTokens, preemptions } = engine.stats();
  await engine.close();
  return { outputs, acceptedDraftTokens, preemptions };
}

/** Engines close their runner: these outlive them. */
export function lend(runner: StepRunner, numBlocks: number): StepRunner {
  const { vocabSize, hiddenSize, blockSize, maxPositions } = runner;
  const run: StepRunner["run"] = (input) => runner.run(input);
  return { vocabSize, hiddenSize, blockSize, numBlocks, maxPositions, run, close: async () => undefined };
}

export async function collectReal(chunks: AsyncIterable<GeneratedChunk>): Promise<RealOutput> {
  const tokens: number[] = [];
  const logProbs: number[] = [];
  const margins: number[] = [];
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokenIds);
    logProbs.push(...chunk.logProbs);
    const top = chunk.extras?.topLogProbs ?? new Float32Array(0);
    for (let i = 0; i + 1 < top.length; i += 2) margins.push((top[i] ?? 0) - (top[i + 1] ?? 0));
  }
  return { tokens, logProbs, margins };
}
