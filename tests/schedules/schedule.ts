/**
 * Random loads for an engine: how large it is, who asks for what, when they come, leave and give up. All of it follows
 * from one number, so that a load that shows a fault can be run again.
 */

import type { EngineConfig } from "../../server/src/engine/engine-config.ts";
import { type GenerateRequest, NEUTRAL_REQUEST } from "../../server/src/engine/request/generate.ts";
import { createRandom, type Random } from "../support/random.ts";

export interface Shape {
  readonly blockSize: number;
  readonly numBlocks: number;
  readonly numHostBlocks: number;
  readonly window: number | undefined;
  readonly vocabSize: number;
  readonly maxPositions: number;
}

export interface Arrival {
  /** The step during which the request comes in; sooner when the engine has nothing else to do. */
  readonly step: number;
  readonly request: GenerateRequest;
  /** The step during which its caller gives up; infinite = never. */
  readonly cancelStep: number;
}

export interface Schedule {
  readonly seed: number;
  readonly shape: Shape;
  readonly config: EngineConfig;
  /** The drafter beside the look-up: a model that is always right, one that is not, or none. */
  readonly draftModel: "same" | "other" | "none";
  readonly arrivals: readonly Arrival[];
  /** On the virtual clock, one after the other and again from the start. */
  readonly stepMs: readonly number[];
}

export function createSchedule(seed: number): Schedule {
  const random = createRandom(seed);
  const shape = randomShape(random);
  const config = randomConfig(random);
  const prompts = [0, 1, 2].map(() => Array.from({ length: 40 }, () => random.below(shape.vocabSize)));
  const lastStep = random.pick([1, 10, 40]);
  const arrivals = Array.from({ length: 2 + random.below(10) }, () => randomArrival(random, shape, prompts, lastStep));
  return {
    seed,
    shape,
    config,
    draftModel:
      config.speculation.maxDraftTokens > 0 ? random.pick(["none", "none", "same", "other"] as const) : "none",
    arrivals: arrivals.sort((a, b) => a.step - b.step),
    stepMs: Array.from({ length: 7 }, () => random.below(random.below(2) === 0 ? 30 : 20_000)),
  };
}

function randomShape(random: Random): Shape {
  const isWindowed = random.below(6) === 0;
  return {
    blockSize: 1 + random.below(5),
    numBlocks: 6 + random.below(random.pick([6, 12, 40])),
    numHostBlocks: isWindowed || random.below(3) > 0 ? 0 : 1 + random.below(12),
    window: isWindowed ? 3 + random.below(12) : undefined,
    vocabSize: random.pick([3, 3, 24]),
    maxPositions: 24 + random.below(40),
  };
}

function randomConfig(random: Random): EngineConfig {
  const isSpeculating = random.below(2) === 0;
  return {
    maxSequences: 1 + random.below(10),
    maxBatchTokens: 1 + random.below(random.pick([8, 40])),
    chunkedPrefill: random.below(4) > 0,
    prefixReuse: random.below(4) > 0,
    policy: random.pick(["max_utilization", "max_utilization", "guaranteed_no_evict"] as const),
    maxWaiting: 0,
    speculation: { maxDraftTokens: isSpeculating ? 1 + random.below(5) : 0, ngramSize: random.below(4) },
  };
}

function randomArrival(
  random: Random,
  shape: Shape,
  prompts: readonly (readonly number[])[],
  lastStep: number,
): Arrival {
  const step = random.below(lastStep);
  return {
    step,
    request: randomRequest(random, shape, prompts),
    cancelStep: random.below(7) === 0 ? step + random.below(12) : Number.POSITIVE_INFINITY,
  };
}

function randomRequest(random: Random, shape: Shape, prompts: readonly (readonly number[])[]): GenerateRequest {
  const longest = Math.min(shape.maxPositions - 2, shape.numBlocks * shape.blockSize - 2, 30);
  const prompt = random.pick(prompts).slice(0, 1 + random.below(longest));
  if (random.below(3) === 0) prompt[random.below(prompt.length)] = random.below(shape.vocabSize);
  const common = {
    ...NEUTRAL_REQUEST,
    promptTokens: Int32Array.from(prompt),
    maxTokens: 1 + random.below(18),
    cacheSalt: random.pick(["", "", "", "salt"]),
    priority: random.pick([0.5, 0.5, 0, 1]),
    logProbs: random.below(6) === 0,
    contextLogits: random.below(10) === 0,
    ...randomStops(random, shape),
    ...randomRetention(random),
  };
  if (random.below(12) === 0) return { ...common, beamWidth: 2 + random.below(2), contextLogits: false };
  return { ...common, ...randomSampling(random, shape), ...randomDrafts(random, shape) };
}

function randomSampling(random: Random, { vocabSize }: Shape): Partial<GenerateRequest> {
  if (random.below(2) === 0) return {};
  return {
    seed: BigInt(random.below(2 ** 31)),
    topK: random.pick([0, 0, 2, 5]),
    topP: random.pick([0, 0.9]),
    temperature: random.pick([0.5, 1, 2]),
    repetitionPenalty: random.pick([1, 1.3]),
    frequencyPenalty: random.pick([0, 0, 0.4]),
    topPDecay: random.pick([1, 0.8]),
    noRepeatNgramSize: vocabSize > 3 ? random.pick([0, 0, 3]) : 0, // with few ids all are soon forbidden
  };
}

function randomStops(random: Random, { vocabSize }: Shape): Partial<GenerateRequest> {
  const words = (count: number): Int32Array[] =>
    Array.from({ length: count }, () =>
      Int32Array.from({ length: 1 + random.below(3) }, () => random.below(vocabSize)),
    );
  return {
    endIds: random.below(4) === 0 ? Int32Array.of(random.below(vocabSize)) : NEUTRAL_REQUEST.endIds,
    minTokens: random.pick([0, 0, 4]),
    stopWords: words(random.pick([0, 0, 0, 1, 2])),
    badWords: vocabSize > 3 ? words(random.pick([0, 0, 1])) : [],
  };
}

function randomRetention(random: Random): Partial<GenerateRequest> {
  if (random.below(8) > 0) return {};
  const durationMs = random.pick([0, 500, Number.POSITIVE_INFINITY]);
  const ranges = [{ start: 0, end: 1 + random.below(20), priority: random.below(101), durationMs }];
  return { retention: { ranges, decode: { priority: random.below(101), durationMs: 100 } } };
}

function randomDrafts(random: Random, { vocabSize }: Shape): Partial<GenerateRequest> {
  const count = random.pick([0, 0, 0, 0, 3, 9]);
  return {
    draftTokens: Int32Array.from({ length: count }, () => random.below(vocabSize)),
    maxDraftTokens: random.pick([-1, -1, -1, 0, 2]),
  };
}
