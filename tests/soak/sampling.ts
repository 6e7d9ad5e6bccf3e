/**
 * Sampled distributions of the engine's own sampler against the reference by chi-square: every parameter and combinations, flat
 * and peaked logits, four vocabularies, up to a million draws each.
 */
import assert from "node:assert/strict";
import type { Sequence } from "../../server/src/engine/request/sequence.ts";
import { Sampler } from "../../server/src/engine/sample/sampler.ts";
import { deviateOf, distributionRef, type ReferenceDistribution } from "../sampling/chi-square.ts";
import { logitsOf, MAX_DRAWS, SAMPLING_CASES, sequenceOf, VOCABULARIES } from "../sampling/sampling-cases.ts";
import type { Soak, SoakOptions, SoakResult } from "./soak.ts";

/** One in 300,000 normal deviates is larger; there are some hundred. */
const MAX_DEVIATE = 4.5;
/** Share of the time for the smallest vocabulary, whose draws take the least. */
const FIRST_SHARE = 0.5;

export const samplingSoak: Soak = { name: "sampling", run };

interface Experiment {
  readonly name: string;
  readonly vocabSize: number;
  readonly logits: Float32Array;
  readonly sequence: Sequence;
  readonly expected: ReferenceDistribution;
  readonly counts: Float64Array;
  numDraws: number;
}

/** Vocabularies share the time; each draws a million times from every case if there is enough of it. */
async function run({ seed, deadlineMs }: SoakOptions): Promise<SoakResult> {
  const result: Record<string, number> = {};
  let largest = Number.NEGATIVE_INFINITY;
  for (const [i, vocabSize] of VOCABULARIES.entries()) {
    const left = deadlineMs - performance.now();
    const share = i === 0 ? FIRST_SHARE : 1 / (VOCABULARIES.length - i);
    const experiments = experimentsOf(vocabSize, seed);
    await drawAll(experiments, performance.now() + share * left);
    for (const { name, counts, expected } of experiments) {
      const deviate = deviateOf(counts, expected, name);
      assert.ok(deviate < MAX_DEVIATE, `${name}: a deviate of ${deviate.toFixed(2)}`);
      largest = Math.max(largest, deviate);
    }
    result[`fewestDrawsOf${vocabSize}`] = Math.min(...experiments.map(({ numDraws }) => numDraws));
  }
  return { cases: 2 * SAMPLING_CASES.length, ...result, largestDeviate: Number(largest.toFixed(3)) };
}

function experimentsOf(vocabSize: number, seed: number): Experiment[] {
  return [false, true].flatMap((isPeaked) => {
    const logits = logitsOf(vocabSize, isPeaked, seed + vocabSize);
    return SAMPLING_CASES.map((each): Experiment => {
      const sequence = sequenceOf(each, vocabSize);
      const name = `${each.name}, ${isPeaked ? "peaked" : "flat"}, ${vocabSize} tokens`;
      const expected = distributionRef(logits, sequence);
      return { name, vocabSize, logits, sequence, expected, counts: new Float64Array(vocabSize), numDraws: 0 };
    });
  });
}

/** In turns, so that all cases have as many draws when the time is over. */
async function drawAll(experiments: readonly Experiment[], untilMs: number): Promise<void> {
  const sampler = new Sampler(experiments[0]?.vocabSize ?? 0);
  const perTurn = Math.max(1, Math.floor(2_000_000 / (experiments[0]?.vocabSize ?? 1)));
  while (performance.now() < untilMs) {
    for (const experiment of experiments) draw(experiment, sampler, perTurn);
    if (experiments.every(({ numDraws }) => numDraws >= MAX_DRAWS)) return;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

function draw(experiment: Experiment, sampler: Sampler, count: number): void {
  const { logits, sequence, counts } = experiment;
  const end = Math.min(MAX_DRAWS, experiment.numDraws + count);
  for (; experiment.numDraws < end; experiment.numDraws++) {
    const token = sampler.sample(logits, sequence);
    counts[token] = (counts[token] ?? 0) + 1;
    sequence.numTokens += 1; // the next index, with nothing appended that penalties could see
  }
}
